"""Tensor parallelism: N parts equal the whole layer, forward and backward, with the sums stated."""

import json
import sys
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from numformer.layers import ALiBi, FeedForward, LayerNorm, MultiHeadAttention
from numformer.layers.parallel.tensor_parallel import TensorParallel
from ranks import mpirun, needs_mpi

NAMES = ["relu", "gelu, no bias", "swiglu", "attention", "grouped, rotary", "causal"]


@lru_cache
def on_ranks(n):
    done = mpirun(n, sys.executable, Path(__file__).with_name("tensor_program.py"))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@needs_mpi
@pytest.mark.parametrize("n", [1, 2, 4])
@pytest.mark.parametrize("name", NAMES)
def test_parts_equal_the_whole(n, name):
    found = on_ranks(n)[name]
    assert found["y"] < 1e-12 and found["dx"] < 1e-12 and found["parameters"] < 1e-12
    assert found["sums"] == 2                         # one forward, one backward
    biases = found["of"] * 0.2
    assert found["of"] / n <= found["numbers"] <= found["of"] / n + biases


@needs_mpi
@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_block_makes_two_sums_forward_and_two_backward(n):
    errors, sums = on_ranks(n)["block"]
    assert all(error < 1e-12 for error in errors) and sums == 4


def parts_of(layer, n):
    return [TensorParallel(layer, part, n, total=lambda x: x) for part in range(n)]


def test_parts_of_one_process_add_up(rng):
    layer = FeedForward(6, 9, "gelu", rng, dtype=np.float64)
    x = rng.standard_normal((2, 3, 6))
    np.testing.assert_allclose(sum(part(x) for part in parts_of(layer, 3)), layer(x), rtol=1e-12)


@pytest.mark.parametrize("make, n, words", [
    (lambda rng: FeedForward(6, 9, "gelu", rng), 2, "parts=2"),
    (lambda rng: MultiHeadAttention(12, 6, rng, n_kv_heads=2), 3, "parts=3"),
    (lambda rng: LayerNorm(6), 2, "is a LayerNorm"),
    (lambda rng: MultiHeadAttention(8, 4, rng, positions=ALiBi(4)), 2, "ALiBi differs"),
    (lambda rng: MultiHeadAttention(8, 4, rng, query_key_norm=True), 2, "query_key_norm=False")])
def test_what_cannot_be_cut_is_refused(make, n, words, rng):
    with pytest.raises((TypeError, ValueError), match=words):
        parts_of(make(rng), n)


@pytest.mark.parametrize("part, parts", [(2, 2), (0, 0), (-1, 2), (0, 1.5)])
def test_wrong_parts_are_refused(part, parts, rng):
    with pytest.raises((TypeError, ValueError), match="TensorParallel: part"):
        TensorParallel(FeedForward(6, 8, "gelu", rng), part, parts, total=None)
