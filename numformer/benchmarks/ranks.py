"""A training step on 1, 2, ... ranks of MPI, each on a core of its own, and what a model predicts.

    python -m numformer.benchmarks.ranks [CASE] [--seconds S] [--rounds R] [--json]

One round runs all numbers of ranks in turn. Needs mpirun and mpi4py.
"""

import argparse
import json
import os
import subprocess
import sys
import time

import numpy as np

from numformer import backend
from numformer.analysis.parallel.communication import bytes_of_step, step_seconds
from numformer.benchmarks.machine import processor
from numformer.benchmarks.side_by_side import sgemm_side
from numformer.benchmarks.training import Case, trainer

CASE = "4x4x128:12x64"
LARGE = 2**22                                         # bytes of a message that shows the bandwidth
# In a container, a process is often root.
SETTINGS = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def measure(case, seconds, rounds):
    """Rows of {ranks, seconds, exchange, bytes, ...} for 1, ..., cores ranks: medians of rounds."""
    found = {n: [] for n in range(1, backend.get_threads() + 1)}
    for _ in range(rounds):
        for n in found:
            done = subprocess.run(
                ["mpirun", "--bind-to", "core", "-n", str(n), sys.executable, "-m",
                 "numformer.benchmarks.ranks", case, "--seconds", str(seconds), "--rank"],
                capture_output=True, text=True, env={**os.environ, **SETTINGS})
            if done.returncode:
                raise OSError(done.stderr[-2000:])
            found[n].append(json.loads(done.stdout.splitlines()[-1]))
    return [{"ranks": n, **{key: float(np.median([row[key] for row in rows])) for key in rows[0]}}
            for n, rows in found.items()]


def of_rank(case, seconds):
    """What a rank measures: rank 0 prints it."""
    from mpi4py import MPI

    from numformer.training.parallel.ranks import RankShards

    comm, case = MPI.COMM_WORLD, Case.parse(case)
    backend.set_threads(1)
    made = trainer(case, shards=max(2, comm.size))
    made.parallel = shards = RankShards(made.model, made.optimizer, made.config, comm)
    waited = []
    for name in ("_sum", "share"):
        setattr(shards, name, _timed(getattr(shards, name), waited))
    for _ in range(20):
        made.train_step()
    del waited[:]
    shards.bytes_sent, steps, started = 0, [], time.perf_counter()
    while not shards.agree(time.perf_counter() - started > seconds):
        before = time.perf_counter()
        made.train_step()
        steps.append(time.perf_counter() - before)
    latency, bandwidth = _link(comm)
    sgemm = min(sgemm_side()()["flop"] for _ in range(5))
    found = {"seconds": float(np.median(steps)), "exchange": sum(waited) / len(steps),
             "bytes": comm.allreduce(shards.bytes_sent) / len(steps) / comm.size,
             "parameters": sum(p.data.size for p in made.model.parameters()),
             "latency": latency, "bandwidth": bandwidth, "gflops": 1e-9 / sgemm}
    if comm.rank == 0:
        print(json.dumps(found))


def _timed(function, waited):
    def call(*arguments):
        started = time.perf_counter()
        result = function(*arguments)
        waited.append(time.perf_counter() - started)
        return result
    return call


def _link(comm):
    """(seconds of a short message, bytes a second of long ones) between ranks 0 and 1."""
    times = {}
    for size in (8, LARGE):
        data = np.zeros(size, np.uint8)
        found = []
        for _ in range(50):
            comm.Barrier()
            started = time.perf_counter()
            if comm.size > 1 and comm.rank < 2:
                for turn in range(2):                 # there and back
                    if comm.rank == turn:
                        comm.Send(data, dest=1 - turn)
                    else:
                        comm.Recv(data, source=1 - comm.rank)
            found.append((time.perf_counter() - started) / 2)
        times[size] = float(np.median(found))
    return times[8], LARGE / max(times[LARGE] - times[8], 1e-9)


def report(case, rows):
    """The table of the measured rows, with what the model of `step_seconds` predicts."""
    alone, last = rows[0], rows[-1]
    print(f"{case} on {processor()}; sgemm {alone['gflops']:.0f} GFLOP/s a core; a message takes "
          f"{1e6 * last['latency']:.1f} us + bytes / {last['bandwidth'] / 1e9:.1f} GB/s")
    print(f"{'ranks':>6}{'ms a step':>11}{'model':>9}{'speedup':>9}{'in exchange':>13}"
          f"{'MB a step':>11}{'formula':>9}")
    for row in rows:
        n, P = row["ranks"], int(row["parameters"])
        model = step_seconds(alone["seconds"], n, 4 * P, last["latency"], last["bandwidth"])
        print(f"{n:6}{1e3 * row['seconds']:11.2f}{1e3 * model:9.2f}"
              f"{alone['seconds'] / row['seconds']:9.2f}{1e3 * row['exchange']:10.2f} ms"
              f"{row['bytes'] / 1e6:11.3f}{bytes_of_step(P, n) / 1e6:9.3f}")


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("case", nargs="?", default=CASE)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank:
        of_rank(given.case, given.seconds)
        return
    rows = measure(given.case, given.seconds, given.rounds)
    report(given.case, rows)
    if given.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
