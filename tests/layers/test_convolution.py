"""Causal convolution: its definition, and its state step by step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numformer import functional as F
from numformer.layers import CausalConvolution


def same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 7), st.integers(0, 2**32 - 1))
def test_convolution_equals_its_definition(K, dilation, T, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((2, T, 3))
    weight = rng.standard_normal((K, 3, 2))
    bias = rng.standard_normal(2)
    expected = np.tile(bias, (2, T, 1))
    for t in range(T):
        for k in range(K):
            if t - (K - 1 - k) * dilation >= 0:
                expected[:, t] += x[:, t - (K - 1 - k) * dilation] @ weight[k]
    same(F.causal_convolution(x, weight, bias, dilation)[0], expected)


def test_the_state_of_a_convolution_is_its_last_inputs(rng):
    layer = CausalConvolution(3, 2, 3, rng, dilation=2)
    x = rng.standard_normal((2, 7, 3)).astype(np.float32)
    assert layer.reach == 4
    _, state = layer.step(x)
    assert np.array_equal(state, x[:, -4:]) and not np.shares_memory(state, x)
    _, state = layer.step(x[:, :3])
    before = np.zeros((2, 1, 3), np.float32)
    assert np.array_equal(state, np.concatenate([before, x[:, :3]], axis=1))
    with pytest.raises(ValueError, match="state must have shape"):
        layer.step(x, state[:, 1:])
    with pytest.raises(ValueError, match="x is empty"):
        layer.step(x[:, :0])
    # a filter over one position has an empty state
    one = CausalConvolution(3, 2, 1, rng)
    y, state = one.step(x)
    assert state.shape == (2, 0, 3) and np.array_equal(y, one(x))
