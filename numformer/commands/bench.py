"""numformer bench: measure time and memory, compared with PyTorch.

    numformer bench train --seconds 0 --no-memory --no-compile --case 1x1x8:1x8
"""

import sys

import numpy as np

from numformer import backend
from numformer.benchmarks import attention, generating, speedrun, training
from numformer.benchmarks.breakdown import breakdown
from numformer.benchmarks.machine import description, processor
from numformer.benchmarks.side_by_side import start_torch
from numformer.checks import check_number, check_whole
from numformer.commands import UsageError
from numformer.commands.shared.output import check_picture, print_json, save_picture
from numformer.commands.shared.run_arguments import add_weights_argument, smaller_weights
from numformer.data import DOCUMENTATION, load_corpus

SUBJECTS = {"attention": attention, "train": training, "generate": generating, "speedrun": speedrun}


def add_arguments(parser):
    parser.add_argument("subject", choices=SUBJECTS, help="what to measure")
    parser.add_argument("--case", action="append", metavar="CASE", help="attention: "
                        "BxHxTxD:PATTERN, with PATTERN causal, everywhere or window=N; train: "
                        "LAYERSxHEADSxWIDTH:BATCHxLENGTH, with :VOCABULARY or without; generate: "
                        "LAYERSxHEADSxWIDTH:SEQUENCES; can be repeated")
    parser.add_argument("--data", metavar="DATA", help="speedrun: a text file or tinyshakespeare "
                        "(default: Python's documentation)")
    add_weights_argument(parser, "generate: how the weights of numformer are stored")
    parser.add_argument("--threads", type=int, metavar="N", help="number of threads for both sides "
                        "(default: all cores)")
    parser.add_argument("--seconds", type=float, metavar="S", help="approximate time for each case "
                        "(default: attention 6, train 40 and half as long "
                        "again on one thread, generate 20)")
    parser.add_argument("--no-memory", action="store_true", help="attention and train: do not "
                        "measure memory, which takes one more run of each side")
    parser.add_argument("--no-compile", action="store_true", help="train: do not measure "
                        "torch.compile, which takes a minute")
    parser.add_argument("--breakdown", metavar="PICTURE", help="train: also draw where the time of "
                        "a step goes")
    parser.add_argument("--growth", metavar="PICTURE", help="train: also draw how the time of a "
                        "step grows with batch, length, width and layers")


def run(arguments):
    usual = {"attention": 6.0, "train": 40.0}.get(arguments.subject, 20.0)
    seconds = usual if arguments.seconds is None else arguments.seconds
    try:
        check_number("bench", "--seconds", seconds, least=0)
        if arguments.threads is not None:
            check_whole("bench", "--threads", arguments.threads)
        module = SUBJECTS[arguments.subject]
        cases = [] if module is speedrun else [module.Case.parse(name) for name in arguments.case
                                               or module.CASES]
    except ValueError as error:
        raise UsageError(str(error)) from error
    for name in ("growth", "breakdown"):
        if getattr(arguments, name):
            check_picture(f"bench: --{name}", getattr(arguments, name))
    with backend.threads(arguments.threads):
        start_torch()
    if arguments.subject == "attention" and backend.compiled_attention() is None:
        raise UsageError(f"bench: there are no kernels to measure: {backend.why_no_kernels()}; "
                         "install numba, or leave NUMBA_DISABLE_JIT out.")
    with backend.threads(arguments.threads):
        bench = {"attention": _attention, "train": _train, "generate": _generate,
                 "speedrun": _speedrun}[arguments.subject]
        result = bench(cases, seconds, arguments)
    if arguments.json:
        print_json(result)
    return 0


def _attention(cases, seconds, arguments):
    rows, compile_seconds = [], attention.compile_seconds()
    print(description())
    print("forward + backward in ms, medians of alternating runs; memory in MiB besides inputs and "
          "outputs; of sgemm: forward, backward")
    print(f"{'case':26}{'kernel':>18}{'NumPy':>18}{'PyTorch':>18}{'speedup':>9}{'of sgemm':>11}"
          f"{'GFLOP/s':>9}{'memory: kernel, NumPy, PyTorch':>33}  BLAS")
    for case in cases:
        print(f"measuring {case.name}", file=sys.stderr)
        row = attention.measure(case, not arguments.no_memory, seconds)
        rows.append(row)
        times = "".join(f"{_pair(row, prefix):>18}" for prefix in ("", "numpy_", "torch_"))
        memory = ", ".join(_mebibytes(row[f"{prefix}extra_bytes"])
                           for prefix in ("", "numpy_", "torch_"))
        ratio = "-" if row["times_torch"] is None else f"{row['times_torch']:.2f}"
        reached = f"{row['forward_of_sgemm']:.0%}, {row['backward_of_sgemm']:.0%}"
        print(
            f"{case.name:26}{times}{ratio:>9}{reached:>11}{row['sgemm_gflops']:>9.0f}{memory:>33}"
            f"  {row['blas']}",
            flush=True)
    ratios = [row["times_torch"] for row in rows if row["times_torch"]]
    mean = float(np.exp(np.mean(np.log(ratios)))) if ratios else None
    if mean:
        print(f"geometric mean of the speedups over PyTorch: {mean:.2f}")
    print(f"compiling the kernels, once per machine: {compile_seconds:.1f} s")
    return {"cases": rows, "geometric_mean": mean, "compile_seconds": compile_seconds}


def _train(cases, seconds, arguments):
    rows = []
    print(description())
    print("ms of a step: median and quartiles of alternating runs; ms of CPU time of a step on one "
          "thread; peak memory in MiB; ratio: numformer relative to the other")
    print(f"{'case':26}{'step':>22}{'ratio':>7}{'CPU':>9}{'ratio':>7}{'memory':>9}{'ratio':>7}"
          "  BLAS")
    for case in cases:
        print(f"measuring {case.name}", file=sys.stderr)
        row = training.measure(case, seconds, not arguments.no_compile, not arguments.no_memory)
        rows.append({**row, "breakdown_ms": breakdown(case)})
        _print_sides(row)
    for row in rows:
        total = sum(row["breakdown_ms"].values())
        print(f"{row['case']}, half the batch on one thread, {total:.1f} ms: " + ", ".join(
            f"{name} {ms:.2f}" for name, ms in row["breakdown_ms"].items() if ms >= 0.002 * total))
    result = {"cases": rows}
    if arguments.breakdown:
        from numformer.plots import breakdown_bars

        bars = breakdown_bars({row["case"]: row["breakdown_ms"] for row in rows})
        save_picture(bars, arguments.breakdown)
    if arguments.growth:
        from numformer.plots import growth_of_time

        growth = training.growth()
        slopes = {size: training.slope(times) for size, times in growth.items()}
        save_picture(growth_of_time(growth, slopes), arguments.growth)
        print("time grows as a power law: " + ", ".join(f"{size}^{power:.2f}"
                                                        for size, power in slopes.items()))
        result.update(growth_ms=growth, growth_exponents=slopes)
    return result


def _print_sides(row):
    """A line for each program that took part in `bench train`."""
    names = {"": "numformer", "torch": "PyTorch", "torch_compiled": "PyTorch, compiled",
             "jax": "JAX"}
    libraries = {"": row["blas"], "jax": "XLA"}
    print(f"{row['case']}: {row['of_sgemm']:.0%} of sgemm ({row['sgemm_gflops']:.0f} GFLOP/s); "
          f"memory {row['memory_gbytes']:.0f} GB/s")
    for side, name in names.items():
        prefix = side and f"{side}_"
        if row[f"{prefix}step_ms"] is not None:
            ratios = [_or_dash(row.get(f"{ratio}_{side}"), ".2f")
                      for ratio in ("of", "cpu_of", "peak_of")]
            print(f"  {name:24}{_with_quartiles(row, prefix):>22}{ratios[0]:>7}"
                  f"{_or_dash(row[f'{prefix}cpu_ms'], '.4g'):>9}{ratios[1]:>7}"
                  f"{_mebibytes(row[f'{prefix}peak_bytes']):>9}{ratios[2]:>7}"
                  f"  {libraries.get(side, row['torch_blas'])}", flush=True)


def _generate(cases, seconds, arguments):
    titles = {"torch": "PyTorch", "transformers": "transformers", "ctranslate2": "CTranslate2"}
    here, rows = generating.peers_here(), []
    missing = [title for name, title in titles.items() if name not in here]
    print(description())
    if missing:
        print(f"not installed, so not compared: {', '.join(missing)}")
    print("tokens per second and sequence, medians of alternating runs; limit: each weight is read "
          "from memory once per token")
    print(f"{'case':14}{'numformer':>11}"
          + "".join(f"{titles[name]:>14}{'speedup':>9}" for name in here)
          + f"{'limit':>9}{'reached':>9}{'GB/s':>6}  BLAS")
    for case in cases:
        print(f"measuring {case.name}", file=sys.stderr)
        row = {**generating.measure(case, seconds, smaller_weights(arguments)),
               "blas": backend.blas_label(), "processor": processor()}
        rows.append(row)
        rates = "".join(f"{row[f'{name}_tokens_per_second']:>14.0f}{row[f'times_{name}']:>9.2f}"
                        for name in here)
        print(f"{case.name:14}{row['tokens_per_second']:>11.0f}{rates}{row['allowed']:>9.0f}"
              f"{row['of_allowed']:>9.0%}{row['memory_gbytes']:>6.0f}  {row['blas']}", flush=True)
        sides = {"": "numformer", **{f"{name}_": titles[name] for name in here},
                 "float32_": "with float32 weights"}
        print("CPU time of a token in ms, of all threads: " + ", ".join(
            f"{name} {row[f'{prefix}cpu_ms']:.2f}" for prefix, name in sides.items()
            if row[f"{prefix}cpu_ms"]), flush=True)
        if row["times_float32"]:
            print(f"{row['weights']} weights: {row['times_float32']:.2f} times the speed of "
                  f"float32 ones, {row['float32_tokens_per_second']:.0f}", flush=True)
    return {"cases": rows}


def _speedrun(cases, seconds, arguments):
    corpus = load_corpus(DOCUMENTATION if arguments.data is None else arguments.data)
    found = speedrun.race(corpus, lambda message: print(message, file=sys.stderr))
    found.update(blas=backend.blas_label(), processor=processor())
    print(description())
    print("validation loss on all blocks, and training time; evaluation is not counted; BLAS: "
          + found["blas"])
    for seed, (loss, took) in enumerate(found["speedrun"]["runs"]):
        print(f"speedrun, seed {seed}:       {loss:.4f} {took:7.2f} s", flush=True)
    print(f"speedrun, median:       {found['speedrun']['loss']:.4f} "
          f"{found['speedrun']['seconds']:7.2f} s")
    print(f"speedrun-long:          {found['long'][0]:.4f} {found['long'][1]:7.2f} s")
    if found["torch"]:
        print(f"PyTorch, {speedrun.RECIPE}:   {found['torch'][0]:.4f} {found['torch'][1]:7.2f} s")
        print(f"speedrun takes {found['of_torch']:.3f} of the time of PyTorch")
    print(f"compilation and warm-up, not counted: {found['warm_up_seconds']:.1f} s")
    return found


def _or_dash(number, form):
    return "-" if number is None else format(number, form)


def _pair(row, prefix):
    forward, backward = row[f"{prefix}forward_ms"], row[f"{prefix}backward_ms"]
    return "-" if forward is None else f"{forward:.4g} + {backward:.4g}"


def _with_quartiles(row, prefix):
    if row[f"{prefix}step_ms"] is None:
        return "-"
    low, high = row[f"{prefix}quartiles_ms"]
    return f"{row[f'{prefix}step_ms']:.4g} ({low:.4g}-{high:.4g})"


def _mebibytes(size):
    return "-" if size is None else f"{size / 2**20:.1f}"
