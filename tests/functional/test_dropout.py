"""Dropout and its masks, which are a hash of seed and position."""

import math

import numpy as np
import pytest

from numformer import functional as F
from numformer.functional.attention.dropout import uses_dropout
from numformer.functional.dropout_hash import dropout_threshold, mix


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dropout_keeps_the_mean_and_the_dtype(dtype, rng):
    y, saved = F.dropout(np.ones(100_000, dtype), 0.3, rng)
    assert y.dtype == dtype and abs(y.mean() - 1) < 0.01
    assert set(np.unique(y)) == {0, dtype(1 / 0.7)}
    assert np.array_equal(F.dropout_backward(np.ones_like(y), saved), y)


def test_without_dropout_nothing_is_drawn_and_the_output_is_a_copy(rng):
    x, branch = rng.standard_normal((2, 3, 4))
    for rate, generator in ((0.4, None), (0, rng), (0.0, rng)):
        before = rng.bit_generator.state
        y, saved = F.dropout(x, rate, generator)
        assert np.array_equal(y, x) and y is not x
        assert np.array_equal(F.dropout_backward(x, saved), x)
        y, saved = F.residual_dropout(x, branch, rate, generator)
        dx, dbranch = F.residual_dropout_backward(y, saved)
        assert np.array_equal(y, x + branch)
        assert np.array_equal(dx, y) and np.array_equal(dbranch, y)
        assert rng.bit_generator.state == before
    assert uses_dropout(0.1, 5) and not uses_dropout(0.0, 5) and not uses_dropout(0.1, None)


def test_the_threshold_of_the_hash_and_the_bounds_of_seed_and_rate():
    assert dropout_threshold(0.5) == 2**31 and dropout_threshold(1 - 1e-15) == 2**32 - 1
    assert dropout_threshold(0.0) == 0
    assert F.attention_dropout_mask(2**64 - 1, (1, 1, 2, 2), 0.0).all()
    for seed in (2**64, -1, 1.0, True):
        with pytest.raises(ValueError, match="seed="):
            F.attention_dropout_mask(seed, (1, 1, 2, 2), 0.5)
    for rate in (1, 1.0, 1.5, -0.1):
        with pytest.raises(ValueError, match="rate="):
            F.dropout(np.ones(3), rate, np.random.default_rng(0))


def test_seeds_have_64_bits():
    seeds = [F.dropout_seed(np.random.default_rng(k)) for k in range(64)]
    assert len(set(seeds)) == 64 and max(seeds) > 2**63 and max(seeds) < 2**64


@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 4), (2, 3, 4), (2, 0), (0, 2)])
def test_the_vectors_of_any_array_are_masked_as_the_rows_of_one_head(shape):
    columns = shape[-1] if shape else 1
    head = (1, 1, math.prod(shape) // max(1, columns), columns)
    expected = F.attention_dropout_mask(11, head, 0.5).reshape(shape)
    assert np.array_equal(F.dropout_mask(11, shape, 0.5), expected)
    y, _ = F.dropout(np.ones(shape), 0.5, np.random.default_rng(1))
    assert y.shape == shape and set(y.flat) <= {0, 2}


def test_a_hash_equal_to_the_threshold_keeps_its_weight():
    """A weight is kept when its hash is at least the rate; the rate is cut to 32 bits."""
    low, high, zero = np.array([[9], [5], [0]], np.uint32)
    bits = int(mix(mix(mix(mix(high ^ mix(low ^ mix(zero)))))).item())
    seed = (5 << 32) + 9
    assert F.attention_dropout_mask(seed, (1, 1, 1, 1), bits / 2**32).item()
    assert not F.attention_dropout_mask(seed, (1, 1, 1, 1), (bits + 1) / 2**32).item()


def test_a_rate_of_1_is_refused_without_a_generator_too():
    with pytest.raises(ValueError, match="rate"):
        F.dropout(np.ones(3), 1.0)
