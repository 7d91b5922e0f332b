"""numformer bench: how fast, beside PyTorch where it is installed, and with how much memory."""

import sys
from pathlib import Path

import numpy as np

from numformer import backend
from numformer.benchmarks import attention, generating, speedrun, training
from numformer.checks import check_number, check_whole
from numformer.commands import UsageError
from numformer.commands.audit import FORMATS
from numformer.commands.show import print_json, save_picture
from numformer.datasets import DOCUMENTATION, load_corpus

SUBJECTS = {"attention": attention, "train": training, "generate": generating, "speedrun": speedrun}


def add_arguments(parser):
    parser.add_argument("subject", choices=SUBJECTS, help="what to measure")
    parser.add_argument("--case", action="append", metavar="CASE",
                        help="attention: BxHxTxD:PATTERN with causal, everywhere or window=N; train: LAYERSxHEADSxWIDTH:BATCHxLENGTH; "
                             "generate: LAYERSxHEADSxWIDTH:TEXTS; may be given several times")
    parser.add_argument("--data", metavar="DATA", help="speedrun: a text file or tinyshakespeare (default: Python's documentation)")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of both sides (default: all cores)")
    parser.add_argument("--seconds", type=float, metavar="S",
                        help="about how long to time each case (default: attention 6, train 40, generate 20)")
    parser.add_argument("--no-memory", action="store_true", help="attention: leave out memory, for which each side runs once more")
    parser.add_argument("--no-compile", action="store_true", help="train: leave out torch.compile, which takes a minute")
    parser.add_argument("--growth", metavar="PICTURE", help="train: also draw how a step's time grows with batch, length, width and layers")


def run(arguments):
    usual = {"attention": 6.0, "train": 40.0}.get(arguments.subject, 20.0)
    seconds = usual if arguments.seconds is None else arguments.seconds
    try:
        check_number("bench", "--seconds", seconds, least=0)
        if arguments.threads is not None:
            check_whole("bench", "--threads", arguments.threads)
        module = SUBJECTS[arguments.subject]
        cases = [] if module is speedrun else [module.Case.parse(name) for name in arguments.case or module.CASES]
    except ValueError as error:
        raise UsageError(str(error)) from error
    if arguments.growth and Path(arguments.growth).suffix.lower() not in FORMATS:
        raise UsageError(f"bench: --growth {arguments.growth} must end in {', '.join(FORMATS)}.")
    if backend.compiled_attention() is None:
        raise UsageError("bench: without Numba there is no kernel to measure; pip install numba.")
    with backend.threads(arguments.threads):
        bench = {"attention": _attention, "train": _train, "generate": _generate, "speedrun": _speedrun}[arguments.subject]
        result = bench(cases, seconds, arguments)
    if arguments.json:
        print_json(result)
    return 0


def _attention(cases, seconds, arguments):
    rows, compile_seconds = [], attention.compile_seconds()
    print("forward + backward in ms, medians taken in turns; memory in MiB beyond inputs and outputs; of sgemm: forward, backward")
    print(f"{'case':26}{'kernel':>18}{'NumPy':>18}{'PyTorch':>18}{'times':>7}{'of sgemm':>11}{'GFLOP/s':>9}"
          f"{'memory: kernel, NumPy, PyTorch':>33}")
    for case in cases:
        print(f"measuring {case.name}", file=sys.stderr)
        row = attention.measure(case, not arguments.no_memory, seconds)
        rows.append(row)
        times = "".join(f"{_pair(row, prefix):>18}" for prefix in ("", "numpy_", "torch_"))
        memory = ", ".join(_mebibytes(row[f"{prefix}extra_bytes"]) for prefix in ("", "numpy_", "torch_"))
        ratio = "-" if row["times_torch"] is None else f"{row['times_torch']:.2f}"
        reached = f"{row['forward_of_sgemm']:.0%}, {row['backward_of_sgemm']:.0%}"
        print(f"{case.name:26}{times}{ratio:>7}{reached:>11}{row['sgemm_gflops']:>9.0f}{memory:>33}", flush=True)
    ratios = [row["times_torch"] for row in rows if row["times_torch"]]
    mean = float(np.exp(np.mean(np.log(ratios)))) if ratios else None
    if mean:
        print(f"geometric mean: {mean:.2f} times as fast as PyTorch")
    print(f"compiling, once per machine: {compile_seconds:.1f} s")
    return {"cases": rows, "geometric_mean": mean, "compile_seconds": compile_seconds}


def _train(cases, seconds, arguments):
    rows = []
    print("a step in ms: median, with quartiles, taken in turns; our time as a part of PyTorch's; of the sgemm rate, and that rate")
    print(f"{'case':18}{'numformer':>22}{'PyTorch':>22}{'compiled':>22}{'of eager':>9}{'of compiled':>12}{'of sgemm':>9}"
          f"{'GFLOP/s':>9}{'GB/s':>6}")
    for case in cases:
        print(f"measuring {case.name}", file=sys.stderr)
        row = training.measure(case, seconds, not arguments.no_compile)
        rows.append({**row, "breakdown_ms": training.breakdown(case)})
        times = "".join(f"{_with_quartiles(row, prefix):>22}" for prefix in ("", "torch_", "torch_compiled_"))
        ratios = [_or_dash(row[key], ".2f") for key in ("of_torch", "of_torch_compiled")]
        print(f"{case.name:18}{times}{ratios[0]:>9}{ratios[1]:>12}{row['of_sgemm']:>9.0%}{row['sgemm_gflops']:>9.0f}"
              f"{row['memory_gbytes']:>6.0f}", flush=True)
    for row in rows:
        total = sum(row["breakdown_ms"].values())
        print(f"{row['case']}, one thread with half the batch, {total:.1f} ms: " + ", ".join(
            f"{name} {ms:.2f}" for name, ms in row["breakdown_ms"].items() if ms >= 0.002 * total))
    result = {"cases": rows}
    if arguments.growth:
        from numformer.plots import growth_of_time

        growth = training.growth()
        slopes = {size: training.slope(times) for size, times in growth.items()}
        save_picture(growth_of_time(growth, slopes), arguments.growth)
        print("time grows as a power: " + ", ".join(f"{size}^{power:.2f}" for size, power in slopes.items()))
        result.update(growth_ms=growth, growth_exponents=slopes)
    return result


def _generate(cases, seconds, arguments):
    rows = []
    print("tokens a second of each text, by the median, taken in turns; what the memory allows where every weight is read once a token")
    print(f"{'case':14}{'numformer':>11}{'PyTorch':>11}{'transformers':>14}{'times':>7}{'times':>7}{'allowed':>9}{'reached':>9}{'GB/s':>6}")
    for case in cases:
        print(f"measuring {case.name}", file=sys.stderr)
        row = generating.measure(case, seconds)
        rows.append(row)
        rates = [_or_dash(row[f"{prefix}tokens_per_second"], ".0f") for prefix in ("", "torch_", "transformers_")]
        ratios = [_or_dash(row[key], ".2f") for key in ("times_torch", "times_transformers")]
        print(f"{case.name:14}{rates[0]:>11}{rates[1]:>11}{rates[2]:>14}{ratios[0]:>7}{ratios[1]:>7}{row['allowed']:>9.0f}"
              f"{row['of_allowed']:>9.0%}{row['memory_gbytes']:>6.0f}", flush=True)
    return {"cases": rows}


def _speedrun(cases, seconds, arguments):
    corpus = load_corpus(DOCUMENTATION if arguments.data is None else arguments.data)
    found = speedrun.race(corpus, lambda words: print(words, file=sys.stderr))
    print("validation loss over all of it, and seconds of training; evaluation is not counted")
    for seed, (loss, took) in enumerate(found["speedrun"]["runs"]):
        print(f"speedrun, seed {seed}:       {loss:.4f} {took:7.2f} s", flush=True)
    print(f"speedrun, median:       {found['speedrun']['loss']:.4f} {found['speedrun']['seconds']:7.2f} s")
    print(f"speedrun-long:          {found['long'][0]:.4f} {found['long'][1]:7.2f} s")
    if found["torch"]:
        print(f"PyTorch, {speedrun.RECIPE}:   {found['torch'][0]:.4f} {found['torch'][1]:7.2f} s")
        print(f"speedrun takes {found['of_torch']:.3f} of PyTorch's time")
    print(f"kernels and first steps before the clock ran: {found['warm_up_seconds']:.1f} s")
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
