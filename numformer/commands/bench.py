"""numformer bench: how fast, beside PyTorch where it is installed, and with how much memory."""

import sys

import numpy as np

from numformer import backend
from numformer.benchmarks import attention
from numformer.checks import check_number, check_whole
from numformer.commands import UsageError
from numformer.commands.show import print_json


def add_arguments(parser):
    parser.add_argument("subject", choices=["attention"], help="what to measure")
    parser.add_argument("--case", action="append", metavar="BxHxTxD:PATTERN",
                        help="a shape, and causal, everywhere or window=N; may be given several times")
    parser.add_argument("--threads", type=int, metavar="N", help="threads of both sides (default: all cores)")
    parser.add_argument("--seconds", type=float, default=6.0, metavar="S", help="about how long to time each case (default: %(default)s)")
    parser.add_argument("--no-memory", action="store_true", help="leave out memory, for which each side runs once more, in a new process")


def run(arguments):
    try:
        check_number("bench", "--seconds", arguments.seconds, least=0)
        if arguments.threads is not None:
            check_whole("bench", "--threads", arguments.threads)
        cases = [attention.Case.parse(name) for name in arguments.case or attention.CASES]
    except ValueError as error:
        raise UsageError(str(error)) from error
    if backend.compiled_attention() is None:
        raise UsageError("bench: without Numba there is no kernel to measure; pip install numba.")
    with backend.threads(arguments.threads):
        return _bench(cases, arguments)


def _bench(cases, arguments):
    rows, compile_seconds = [], attention.compile_seconds()
    print("forward + backward in ms, medians taken in turns; memory in MiB beyond inputs and outputs; of sgemm: forward, backward")
    print(f"{'case':26}{'kernel':>18}{'NumPy':>18}{'PyTorch':>18}{'times':>7}{'of sgemm':>11}{'GFLOP/s':>9}"
          f"{'memory: kernel, NumPy, PyTorch':>33}")
    for case in cases:
        print(f"measuring {case.name}", file=sys.stderr)
        row = attention.measure(case, not arguments.no_memory, arguments.seconds)
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
    if arguments.json:
        print_json({"cases": rows, "geometric_mean": mean, "compile_seconds": compile_seconds})
    return 0


def _pair(row, prefix):
    forward, backward = row[f"{prefix}forward_ms"], row[f"{prefix}backward_ms"]
    return "-" if forward is None else f"{forward:.4g} + {backward:.4g}"


def _mebibytes(size):
    return "-" if size is None else f"{size / 2**20:.1f}"
