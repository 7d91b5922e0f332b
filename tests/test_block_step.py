"""Which blocks take the compiled step of one token, and which are left to their parts; and that both say the same."""

import numpy as np
import pytest

from numformer import backend
from numformer.functional import CAUSAL
from numformer.layers import (
    ALiBi, FeedForward, GatedFeedForward, KeyValueCache, LayerNorm, MultiHeadAttention, PreNormBlock, RMSNorm, RotaryPositions)
from numformer.layers.block_step import one_token_step

pytest.importorskip("numba")
C = 12


class OwnAttention(MultiHeadAttention):
    pass


class OwnFeedForward(FeedForward):
    pass


class OwnNorm(RMSNorm):
    pass


def block_of(rng, dtype=np.float64, norms=(LayerNorm, LayerNorm), inside=(True, True), attention=MultiHeadAttention,
             feedforward=FeedForward, activation="gelu", bias=True, **options):
    """A block in which no two numbers are alike, so that none may stand for another."""
    first, second = (norm(C, epsilon=epsilon, epsilon_inside=where, dtype=dtype) for norm, epsilon, where in zip(norms, (0.1, 0.3), inside))
    block = PreNormBlock(first, attention(C, 3, rng, bias=bias, dtype=dtype, **options), second,
                         feedforward(C, 7, activation, rng, bias, dtype=dtype))
    if options.get("query_key_norm"):
        block.attention.query_norm.epsilon, block.attention.key_norm.epsilon = 0.2, 0.4
    for parameter in block.parameters():
        parameter.data += (0.3 * rng.standard_normal(parameter.data.shape)).astype(dtype)
    return block


def by_parts(block, x, cache):
    a, cache = block.attention.step(block.norm1(x), cache, CAUSAL)
    h = x + a
    return h + block.feedforward(block.norm2(h)), cache


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("options", [
    dict(), dict(bias=False), dict(norms=(RMSNorm, RMSNorm), feedforward=GatedFeedForward, activation="silu"),
    dict(inside=(False, False)), dict(norms=(RMSNorm, RMSNorm), inside=(False, False), n_kv_heads=1), dict(positions=ALiBi(3)),
    dict(positions=RotaryPositions(4)), dict(positions=RotaryPositions(4, 50.0, "interleaved"), query_key_norm=True, bias=False),
    dict(feedforward=GatedFeedForward, activation="relu", query_key_norm=True)], ids=str)
def test_one_token_through_a_block(options, dtype, rng):
    block = block_of(rng, dtype, **options)
    before = rng.standard_normal((1, 3, C)).astype(dtype)
    _, cache = block.step(before)
    for length in (3, 4):
        x = rng.standard_normal((1, 1, C)).astype(dtype)
        y, after = one_token_step(block, x, cache)
        wanted, reference = by_parts(block, x, KeyValueCache(cache.k, cache.v))
        tolerance = 1e-4 if dtype == np.float32 else 1e-11
        for found, truth in ((y, wanted), (after.k, reference.k), (after.v, reference.v)):
            np.testing.assert_allclose(found, truth, rtol=tolerance, atol=tolerance)
        assert y.shape == x.shape and y.dtype == dtype and len(cache) == length and len(after) == length + 1
        taken, _ = block.step(x, cache)                               # which takes this way
        assert np.array_equal(taken, y)
        cache = after


@pytest.mark.parametrize("options", [
    dict(attention=OwnAttention), dict(feedforward=OwnFeedForward), dict(norms=(LayerNorm, RMSNorm)), dict(norms=(RMSNorm, LayerNorm)),
    dict(norms=(OwnNorm, OwnNorm)), dict(inside=(True, False)), dict(inside=(False, True))], ids=str)
def test_parts_that_the_kernel_does_not_know(options, rng):
    block = block_of(rng, **options)
    _, cache = block.step(rng.standard_normal((1, 3, C)))
    x = rng.standard_normal((1, 1, C))
    assert one_token_step(block, x, cache) is None
    assert np.array_equal(block.step(x, cache)[0], by_parts(block, x, cache)[0])


def test_when_the_kernel_is_not_asked(rng, monkeypatch):
    """NumPy is wanted; weights of another precision; several tokens, several texts, no cache yet, another pattern."""
    block, x = block_of(rng), rng.standard_normal((2, 2, C))
    _, cache = block.step(x[:1])
    _, pair = block.step(x)
    backend.use("numpy")
    try:
        assert one_token_step(block, x[:1, :1], cache) is None
    finally:
        backend.use("numba")
    assert one_token_step(block, x[:1, :1].astype(np.float32), cache) is None
    asked = []
    monkeypatch.setattr("numformer.layers.block.one_token_step", lambda *given: asked.append(given))
    for given in ((x[:1], cache), (x[:, :1], pair), (x[:1, :1],), (x[:1, :1], cache, CAUSAL.__class__(causal=True))):
        block.step(*given)
        assert not asked
    y, _ = block.step(x[:1, :1], cache)
    assert len(asked) == 1 and np.array_equal(y, by_parts(block, x[:1, :1], cache)[0])
