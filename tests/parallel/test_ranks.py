"""Ranks of MPI: the same bits as one process; moments, bytes and times of sending as promised."""

import json
import sys
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from numformer import backend
from numformer.models import Decoder, DecoderConfig
from numformer.recipes import PRESETS
from numformer.training import OPTIMIZERS, TrainingConfig
from numformer.training.parallel.ranks import shared_out
from program import CASES, SIZES, result, trainer
from ranks import mpirun, needs_mpi

PROGRAM = Path(__file__).parent / "program.py"


# One rank and three, whose shards are of two sizes, in every run; two and four take half a minute
TWO, FOUR = (pytest.param(n, marks=pytest.mark.slow) for n in (2, 4))


@lru_cache
def on_ranks(n, *options):
    done = mpirun(n, sys.executable, PROGRAM, *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@lru_cache
def plain(name):
    with backend.threads(1):
        return json.loads(json.dumps(result(trainer(name))))


@needs_mpi
@pytest.mark.parametrize("n", [1, TWO, 3, FOUR])
@pytest.mark.parametrize("name", CASES)
def test_any_number_of_ranks_gives_the_same_bits(n, name):
    found, expected = on_ranks(n)["results"][name], plain(name)
    for key in expected:
        assert found[key] == expected[key], key


@needs_mpi
@pytest.mark.slow
def test_threads_within_ranks_do_not_matter():
    found = on_ranks(2, "threads")["results"]
    assert all(found[name]["state"] == plain(name)["state"] for name in CASES)


@needs_mpi
@pytest.mark.parametrize("n", [TWO, 3, FOUR])
def test_each_rank_keeps_its_share_of_the_moments(n):
    results = on_ranks(n)["results"]
    for name in ("adamw", "float64", "sgd"):
        moments = results[name]["moments"]
        assert sum(moments) == sum(on_ranks(1)["results"][name]["moments"])
        assert max(moments) <= 1.1 / n * sum(moments), (name, moments)


@needs_mpi
@pytest.mark.parametrize("n", [1, TWO, FOUR])
def test_bytes_are_those_of_the_formula(n):
    found = on_ranks(n)["results"]["adamw"]           # 4 shards: one subtree a rank
    expected = 2 * (n - 1) * found["parameters"]      # all ranks together
    assert found["bytes"] == pytest.approx(expected, rel=0.02)


@needs_mpi
def test_three_ranks_send_a_subtree_each_of_their_shards():
    found = on_ranks(3)["results"]["adamw"]           # shards 0, 1, and 2 with 3
    assert found["bytes"] == pytest.approx(2 * 2 * found["parameters"], rel=0.02)


@needs_mpi
@pytest.mark.parametrize("n", [TWO, 3, FOUR])
def test_blocks_are_sent_while_the_backward_runs(n):
    order = on_ranks(n)["order"]
    blocks = [f"blocks.{k}" for k in reversed(range(SIZES["n_layers"]))]
    assert order[:len(blocks)] == blocks and order[len(blocks)] == "end"
    assert order[len(blocks) + 1:] == [""]


@needs_mpi
def test_a_nan_is_named_by_all_ranks():
    messages = on_ranks(3)["messages"]
    assert len({tuple(each) for each in messages}) == 1
    assert "parameter embedding.weight holds nan at (0, 5)" in messages[0][0]


@needs_mpi
@pytest.mark.parametrize("n", [1, 3])
def test_one_rank_stops_all(n):
    found = on_ranks(n)
    assert found["agreed"] == [True] * n and found["nobody"] is False
    assert found["abandoned"] is None


@pytest.mark.parametrize("name", ["muon", "adamw", "sgd"])
@pytest.mark.parametrize("n", range(1, 9))
def test_chunks_are_shared_out_once_to_neighbours(n, name):
    optimizer = trainer(name).optimizer
    found = shared_out(optimizer, n)
    assert sorted(sum(found, [])) == sorted(optimizer.chunks) and len(found) == n
    for own in found:
        for k in range(len(optimizer.flat)):
            ends = [(chunk.start, chunk.stop) for chunk in own if chunk.vector == k]
            assert all(a[1] == b[0] for a, b in pairwise(ends))
    hidden = [chunk for own in found for chunk in own if chunk.group == "hidden"]
    assert all(len(chunk.shape) == 2 for chunk in hidden) and bool(hidden) == (name == "muon")


@pytest.mark.parametrize("name", ["muon", "adamw"])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_preset_tiny_shares_out_its_moments_evenly(n, name):
    """Muon's matrices are owned whole; other parameters fill up."""
    preset = PRESETS["tiny"]
    model = Decoder(DecoderConfig(vocab_size=65, **preset.model), np.random.default_rng(0))
    optimizer = OPTIMIZERS[name](model, TrainingConfig(**preset.training))
    bytes_ = [sum((chunk.stop - chunk.start) * len(optimizer.state[chunk.vector]) for chunk in own)
              for own in shared_out(optimizer, n)]
    assert max(bytes_) <= 1.1 / n * sum(bytes_), bytes_
