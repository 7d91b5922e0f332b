"""Attention projects into heads at once where it knows all parts, and by its layers otherwise."""

import numpy as np
import pytest

from numformer import backend
from numformer.functional import CAUSAL
from numformer.layers import (
    ALiBi, Linear, MultiHeadAttention, RMSNorm, RotaryPositions, ShawPositions)
from numformer.layers.attention.at_once import (
    project_at_once, project_at_once_backward, projects_at_once)


class OwnLinear(Linear):
    """A subclass may compute anything."""


class OwnNorm(RMSNorm):
    pass


class OwnRotary(RotaryPositions):
    pass


class Reversed(RotaryPositions):
    def encode(self, x, start=0):
        return self.forward(x[..., ::-1], start)

    def encode_backward(self, dy, saved):
        return self.backward(dy, saved)[..., ::-1]


def attention(positions, query_key_norm=True):
    layer = MultiHeadAttention(12, 3, np.random.default_rng(2), positions=positions,
                               query_key_norm=query_key_norm, dtype=np.float64)
    rng = np.random.default_rng(3)
    for parameter in layer.parameters():
        parameter.data += 0.1 * rng.standard_normal(parameter.data.shape)
    return layer


def results(layer, rng):
    x, dy = rng.standard_normal((2, 2, 5, 12))
    y, saved = layer.forward(x, pattern=CAUSAL)
    dx = layer.backward(dy, saved)
    return y, dx, *(parameter.grad for parameter in layer.parameters())


@pytest.mark.parametrize("version", ["numpy", "numba"])
def test_the_product_with_the_joined_matrix_is_what_one_call_gives(version, rng):
    """A slide's first product: (T, C) times (C, 3 H D), cut into q, k and v of all heads."""
    layer = MultiHeadAttention(12, 3, rng, dtype=np.float64)
    assert projects_at_once(layer)
    joined = np.concatenate([part.weight.data for part in (layer.query, layer.key, layer.value)],
                            axis=1)
    x = rng.standard_normal((2, 5, 12))
    expected = (x @ joined).reshape(2, 5, 3, 3, 4).transpose(2, 0, 3, 1, 4)   # (3, B, H, T, D)
    with backend.using(version):
        heads, saved = project_at_once(layer, x)
        for found, wanted in zip(heads, expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
        dheads = rng.standard_normal(expected.shape)
        dx = project_at_once_backward(layer, tuple(dheads), saved)
    dproduct = dheads.transpose(1, 3, 0, 2, 4).reshape(2, 5, 36)
    np.testing.assert_allclose(dx, dproduct @ joined.T, rtol=1e-12, atol=1e-12)


def change_linear(layer):
    layer.value.__class__ = OwnLinear


def change_norm(layer):
    layer.key_norm.__class__ = OwnNorm


def change_positions(layer):
    layer.positions.__class__ = OwnRotary


@pytest.mark.parametrize("change", [change_linear, change_norm, change_positions])
def test_any_parts_run_by_the_layers_with_the_same_result(change):
    usual, other = attention(RotaryPositions(4)), attention(RotaryPositions(4))
    change(other)
    assert projects_at_once(usual) and not projects_at_once(other)
    for found, expected in zip(results(other, np.random.default_rng(4)),
                               results(usual, np.random.default_rng(4)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_norms_with_other_settings_run_by_the_layers():
    for name, value in (("epsilon", 0.5), ("epsilon_inside", False)):
        layer = attention(None)
        setattr(layer.key_norm, name, value)
        assert not projects_at_once(layer)
    assert projects_at_once(attention(ALiBi(3)))
    assert projects_at_once(attention(None, False))


def test_a_subclass_of_rotary_positions_encodes_in_its_own_way():
    ours, usual = attention(Reversed(4), False), attention(RotaryPositions(4), False)
    for part in (usual.query, usual.key):                             # the same, by its weights
        for parameter in part.parameters():
            heads = parameter.data.reshape(*parameter.data.shape[:-1], 3, 4)
            parameter.data = np.ascontiguousarray(heads[..., ::-1]).reshape(parameter.data.shape)
    (y, dx, *_), (expected, expected_dx, *_) = (
        results(layer, np.random.default_rng(4)) for layer in (ours, usual))
    np.testing.assert_allclose(y, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(dx, expected_dx, rtol=1e-10, atol=1e-12)


def test_values_and_output_have_widths_of_their_own(rng):
    """The matrices of a lecture: W_Q and W_K (6, 2 x 4), W_V (6, 2 x 3), and 7 numbers come out."""
    layer = MultiHeadAttention(6, 2, rng, d_head=4, d_value=3, d_output=7, dtype=np.float64,
                               positions=RotaryPositions(4))
    shapes = [part.weight.data.shape for part in (layer.query, layer.key, layer.value,
                                                  layer.output)]
    assert shapes == [(6, 8), (6, 8), (6, 6), (6, 7)]
    x = rng.standard_normal((2, 5, 6))
    y, saved = layer.forward(x, pattern=CAUSAL)
    assert y.shape == (2, 5, 7) and layer.values(saved).shape == (2, 2, 5, 3)
    assert not projects_at_once(layer)

    first, cache = layer.step(x[:, :3])
    assert cache.k.shape == (2, 2, 3, 4) and cache.v.shape == (2, 2, 3, 3)
    second, cache = layer.step(x[:, 3:], cache)
    np.testing.assert_allclose(np.concatenate([first, second], axis=1), y, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("sizes, message", [
    (dict(d_value=0), "d_value"), (dict(d_output=2.0), "d_output"),
    (dict(d_value=3, positions=ShawPositions(6, 2, None)), "does not fit")])
def test_widths_that_cannot_be(sizes, message, rng):
    with pytest.raises((ValueError, TypeError), match=message):
        MultiHeadAttention(12, 2, rng, **sizes)
