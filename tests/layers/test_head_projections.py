"""Attention projects into heads at once where it knows all parts, and by its layers otherwise."""

import numpy as np
import pytest

from numformer.functional import CAUSAL
from numformer.layers import ALiBi, Linear, MultiHeadAttention, RMSNorm, RotaryPositions


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
    assert usual._projects_at_once() and not other._projects_at_once()
    for found, expected in zip(results(other, np.random.default_rng(4)),
                               results(usual, np.random.default_rng(4)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_norms_with_other_settings_run_by_the_layers():
    for name, value in (("epsilon", 0.5), ("epsilon_inside", False)):
        layer = attention(None)
        setattr(layer.key_norm, name, value)
        assert not layer._projects_at_once()
    assert attention(ALiBi(3))._projects_at_once() and attention(None, False)._projects_at_once()


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
