"""Add & Norm: which norms run in one function with the sum before them, and that no other does."""

import numpy as np
import pytest

from numformer.analysis import capture
from numformer.functional import CAUSAL
from numformer.layers import (
    FeedForward, Identity, LayerNorm, MultiHeadAttention, ResidualBranch, RMSNorm,
    SelfAttentionBranch, TransformerBlock)
from numformer.layers.blocks import add_and_norm as page

C = 6


class Doubled(LayerNorm):
    """A norm of one's own: it must run as it is."""

    def forward(self, x):
        y, saved = super().forward(x)
        return 2 * y, saved

    def backward(self, dy, saved):
        return super().backward(2 * dy, saved)


def norms(rng):
    double = dict(dtype=np.float64)
    made = {"layer norm": LayerNorm(C, **double), "without bias": LayerNorm(C, False, **double),
            "rms norm": RMSNorm(C, **double), "unit offset": RMSNorm(C, unit_offset=True, **double),
            "subclass": Doubled(C, **double),
            "outside": RMSNorm(C, epsilon=0.1, epsilon_inside=False, **double),
            "layer norm outside": LayerNorm(C, epsilon_inside=False, **double),
            "no norm": Identity()}
    for norm in made.values():
        for parameter in norm.parameters():
            parameter.data += 0.3 * rng.standard_normal(C)
    return made


JOINT = ["layer norm", "without bias", "rms norm", "unit offset"]


@pytest.mark.parametrize("name", norms(np.random.default_rng(0)))
@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_sum_and_norm_equal_the_two_steps(name, rate, rng):
    norm, (x, b, dtotal, dnormed) = norms(rng)[name], rng.standard_normal((4, 2, 3, C))
    (total, normed), saved = page.add_and_norm(norm, x, b, rate, np.random.default_rng(1))
    assert (saved[0] is not None) == (name in JOINT)
    expected, saved_sum = page.residual_dropout(x, b, rate, np.random.default_rng(1))
    assert np.array_equal(total, expected)
    y, saved_norm = norm.forward(total)
    np.testing.assert_allclose(normed, y, rtol=1e-12)
    for given in (dtotal, None):
        norm.zero_grad()
        through = norm.backward(dnormed, saved_norm)
        dsum = through if given is None else given + through
        wanted = *page.residual_dropout_backward(dsum, saved_sum), *(
            parameter.grad.copy() for parameter in norm.parameters())
        norm.zero_grad()
        for _ in range(2):                                            # gradients add up
            found = page.add_and_norm_backward(norm, given, dnormed, saved)
        gradients = [parameter.grad / 2 for parameter in norm.parameters()]
        for ours, theirs in zip((*found, *gradients), wanted, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-13)


def block(rng, order, norm):
    double, output_norm = dict(dtype=np.float64), norm if order == "sandwich" else None
    attention = MultiHeadAttention(C, 2, rng, **double)
    return TransformerBlock(
        attention=SelfAttentionBranch(norms(rng)[norm], attention, order, 0.3,
                                      output_norm and norms(rng)[norm]),
        feedforward=ResidualBranch(norms(rng)[norm], FeedForward(C, 8, "gelu", rng, **double),
                                   order, 0.3, output_norm and norms(rng)[norm]))


@pytest.mark.parametrize("norm", ["layer norm", "rms norm", "subclass"])
@pytest.mark.parametrize("order", ["pre", "post", "sandwich"])
def test_a_block_is_its_branches_one_after_the_other(order, norm, rng):
    made, (x, dy) = block(rng, order, norm), rng.standard_normal((2, 2, 5, C))
    y, saved = made.forward(x, pattern=CAUSAL, rng=np.random.default_rng(2))
    dx = made.backward(dy, saved)
    gradients = [parameter.grad.copy() for parameter in made.parameters()]
    made.zero_grad()
    generator, h, kept = np.random.default_rng(2), x, []
    for branch in made.branches.values():
        h, saved = branch.forward(h, pattern=CAUSAL, rng=generator)
        kept.append(saved)
    np.testing.assert_allclose(y, h, rtol=1e-12)
    for branch, saved in zip(reversed(made.branches.values()), reversed(kept)):
        dy = branch.backward(dy, saved)
    np.testing.assert_allclose(dx, dy, rtol=1e-11, atol=1e-13)
    for ours, parameter in zip(gradients, made.parameters(), strict=True):
        np.testing.assert_allclose(ours, parameter.grad, rtol=1e-11, atol=1e-12)


def test_norms_are_recorded_and_the_backward_may_follow_later(rng):
    made, (x, dy) = block(rng, "pre", "layer norm"), rng.standard_normal((2, 2, 5, C))
    y, saved = made.forward(x)
    with capture(made, LayerNorm) as calls:
        recorded, saved_recorded = made.forward(x)
    assert [call.name for call in calls] == ["norm1", "norm2"]
    np.testing.assert_allclose(recorded, y, rtol=1e-12)
    np.testing.assert_allclose(made.backward(dy, saved_recorded), made.backward(dy, saved),
                               rtol=1e-11, atol=1e-13)
