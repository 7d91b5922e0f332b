"""Feed-forwards and projections of more rows than a block holds, as plain Python."""

import numpy as np
import plain_python  # noqa: F401  (puts the replacements in place)
import pytest

from numformer import functional as F
from numformer.kernels import (
    activations, feed_forward, gated_feed_forward, head_projections, linear_rows)

ROWS = 40                               # with 16 rows a block: 16, 16 and 8


def arguments(name, rng, width, hidden, activation, biased):
    maps = []
    for shape in ([(width, hidden)] * (2 if name == "gated_feed_forward" else 1)
                  + [(hidden, width)]):
        maps += [rng.standard_normal(shape), rng.standard_normal(shape[1]) if biased else None]
    return rng.standard_normal((ROWS, width)), *maps, activation


@pytest.mark.parametrize("width, hidden", [(3, 7), (1, 1)])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("activation", F.ACTIVATIONS)
@pytest.mark.parametrize("module", [feed_forward, gated_feed_forward])
def test_gradients_add_up_over_blocks_and_to_those_that_are_given(
        module, activation, biased, width, hidden, rng):
    name = module.__name__.split(".")[-1]
    given = arguments(name, rng, width, hidden, activation, biased)
    dy = rng.standard_normal((ROWS, width))
    y, saved = getattr(module, name)(*given)
    expected, saved_reference = getattr(F, name)(*given)
    np.testing.assert_allclose(y, expected, rtol=1e-10, atol=1e-12)
    dx, *gradients = getattr(F, f"{name}_backward")(dy, saved_reference)
    before = [None if g is None else rng.standard_normal(g.shape) for g in gradients]
    found = [None if g is None else g.copy() for g in before]
    found_dx = getattr(module, f"{name}_backward_accumulate")(dy, saved, *found)
    np.testing.assert_allclose(found_dx, dx, rtol=1e-10, atol=1e-12)
    for ours, start, gradient in zip(found, before, gradients, strict=True):
        if gradient is not None:
            np.testing.assert_allclose(ours, start + gradient, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("kind", [activations.RELU, activations.RELU_SQUARED])
def test_an_inactive_relu_has_gradient_0_whatever_comes_from_above(kind):
    da, slope = np.array([[np.nan, np.inf, 3.0]]), np.array([[0.0, 0.0, 2.0]])
    one, dg = np.ones((1, 3)), np.empty((1, 3))
    gated_feed_forward.gate_gradients(kind, da.copy(), one, one, slope, dg)
    feed_forward.multiply_by_slopes(kind, da, slope)
    assert da.tolist() == dg.tolist() == [[0, 0, 6]]


def test_other_activations_do_not_swallow_nan():
    da, slope = np.array([[np.nan, 3.0]]), np.array([[0.0, 2.0]])
    one, dg = np.ones((1, 2)), np.empty((1, 2))
    gated_feed_forward.gate_gradients(activations.GELU, da.copy(), one, one, slope, dg)
    feed_forward.multiply_by_slopes(activations.GELU, da, slope)
    for found in (da, dg):
        np.testing.assert_array_equal(found, [[np.nan, 6]])


def test_a_block_has_a_number_of_hidden_units_and_16_rows_at_least(monkeypatch):
    monkeypatch.setattr(linear_rows, "BLOCK", 2**18)
    assert [linear_rows.block_of_rows(N, 512) for N in (7, 512, 513, 10**6)] == [7, 512, 512, 512]
    assert linear_rows.block_of_rows(1000, 2**17) == 16


@pytest.mark.parametrize("rotated, T, D", [(True, 7, 6), (False, 7, 6), (True, 1, 2),
                                           (False, 1, 1)])
@pytest.mark.parametrize("normed", [(), (0,), (1,), (0, 1)])
def test_head_projections_of_several_blocks_add_to_gradients(normed, rotated, T, D, rng):
    """Blocks of 16 rows end inside a sequence of 7."""
    B, C, H, G = 42 // T, 5, 4, 2
    x, biased = rng.standard_normal((B, T, C)), rng.random(3) < 0.5
    maps = [array for width, bias in zip((H * D, G * D, G * D), biased) for array in (
        rng.standard_normal((C, width)), rng.standard_normal(width) if bias else None)]
    norms = [rng.standard_normal(D) if n in normed else None for n in range(2)]
    rotation = (*F.rotary_angles(0, T, D), "half") if rotated else None
    given = x, *maps, *norms, D, rotation, 0.3
    heads, saved = head_projections.head_projections(*given)
    expected, saved_reference = F.head_projections(*given)
    dheads = tuple(rng.standard_normal(y.shape) for y in expected)
    dx, *gradients = F.head_projections_backward(dheads, saved_reference)
    before = [None if g is None else rng.standard_normal(g.shape) for g in gradients]
    found = [None if g is None else g.copy() for g in before]
    found_dx = head_projections.head_projections_backward_accumulate(dheads, saved, *found)
    for ours, reference in zip((*heads, found_dx), (*expected, dx), strict=True):
        np.testing.assert_allclose(ours, reference, rtol=1e-10, atol=1e-12)
    for ours, start, gradient in zip(found, before, gradients, strict=True):
        if gradient is not None:
            np.testing.assert_allclose(ours, start + gradient, rtol=1e-10, atol=1e-11)
