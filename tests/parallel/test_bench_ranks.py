"""The benchmark of ranks: its table, with bytes as the formula says."""

import json
import subprocess
import sys

import pytest

from numformer.benchmarks.ranks import report
from ranks import environment, needs_mpi


@needs_mpi
def test_the_benchmark_of_ranks_prints_a_table():
    done = subprocess.run([sys.executable, "-m", "numformer.benchmarks.ranks", "1x2x16:4x8",
                           "--seconds", "0.2", "--rounds", "1", "--json"], env=environment(),
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout.splitlines()[-1])
    for row in rows:
        expected = 8 * row["parameters"] * (row["ranks"] - 1) / row["ranks"]
        assert row["bytes"] == pytest.approx(expected, rel=0.02)
        assert row["seconds"] > 0 and row["exchange"] >= 0
    assert "speedup" in done.stdout


def test_the_model_is_printed_next_to_what_was_measured(capsys):
    common = {"parameters": 1000, "latency": 1e-3, "bandwidth": 1e6, "gflops": 50.0}
    report("case", [{"ranks": 1, "seconds": 0.1, "exchange": 0.0, "bytes": 0.0, **common},
                    {"ranks": 2, "seconds": 0.06, "exchange": 0.01, "bytes": 4000.0, **common}])
    last = capsys.readouterr().out.splitlines()[-1].split()
    assert last == ["2", "60.00", "56.00", "1.67", "10.00", "ms", "0.004", "0.004"]
