"""The compiled step of one token: which decoders it takes, and that it equals their layers."""

import numpy as np
import pytest

from numformer import backend
from numformer.backend import dispatch
from numformer.layers import (
    ALiBi, FeedForward, GatedFeedForward, KeyValueCache, LayerNorm, MultiHeadAttention,
    ParallelBlock, RMSNorm, ResidualBranch, RotaryPositions, SelfAttentionBranch, TransformerBlock,
    LMHead)
from numformer.layers.token_step import TokenStep
from numformer.models import Decoder, DecoderConfig
from numformer.parameter import Parameter

pytest.importorskip("numba")
C, V = 12, 9


class OwnAttention(MultiHeadAttention):
    pass


class OwnFeedForward(FeedForward):
    pass


class OwnNorm(RMSNorm):
    pass


def block_of(rng, dtype=np.float64, norms=(LayerNorm, LayerNorm), inside=(True, True),
             attention=MultiHeadAttention,
             order="pre", block=TransformerBlock, feedforward=FeedForward, activation="gelu",
             width=7, bias=True, **options):
    """A block in which all numbers differ, so that none can be taken for another."""
    first, second = (norm(C, epsilon=epsilon, epsilon_inside=where, dtype=dtype)
                     for norm, epsilon, where in zip(norms, 0.1 + rng.random(2), inside))
    attention = attention(C, 3, rng, bias=bias, dtype=dtype, **options)
    feedforward = feedforward(C, width, activation, rng, bias, dtype=dtype)
    block = block(attention=SelfAttentionBranch(first, attention, order),
                  feedforward=ResidualBranch(second, feedforward, order))
    if options.get("query_key_norm"):
        block.attention.query_norm.epsilon, block.attention.key_norm.epsilon = 0.1 + rng.random(2)
    for parameter in block.parameters():
        parameter.data += (0.3 * rng.standard_normal(parameter.data.shape)).astype(dtype)
    return block


def decoder_of(rng, *more, dtype=np.float64, **options):
    """(blocks, norm, head); blocks with other options behind the first two."""
    blocks = [block_of(rng, dtype, **options)
              for _ in range(2)] + [block_of(rng, dtype, **options | other) for other in more]
    norm = type(blocks[0].norm1)(C, epsilon=0.7, epsilon_inside=blocks[0].norm1.epsilon_inside,
                                 dtype=dtype)
    norm.weight.data += rng.standard_normal(C).astype(dtype)
    return blocks, norm, LMHead(Parameter(rng.standard_normal((V, C)).astype(dtype)))


def by_layers(decoder, x, caches):
    blocks, norm, head = decoder
    after = []
    for block, cache in zip(blocks, caches):
        x, cache = block.step(x, cache)
        after.append(cache)
    return head(norm(x)), after


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("options", [
    dict(), dict(bias=False), dict(norms=(RMSNorm, RMSNorm), feedforward=GatedFeedForward,
                                   activation="silu"),
    dict(inside=(False, False)),
    dict(norms=(RMSNorm, RMSNorm), inside=(False, False), n_kv_heads=1), dict(positions=ALiBi(3)),
    dict(positions=RotaryPositions(4)),
    dict(positions=RotaryPositions(4, 50.0, "interleaved"), query_key_norm=True, bias=False),
    dict(feedforward=GatedFeedForward, activation="relu", query_key_norm=True)], ids=str)
def test_a_compiled_step_equals_the_step_of_the_layers(options, dtype, rng):
    decoder = decoder_of(rng, dtype=dtype, **options)
    _, caches = by_layers(decoder, rng.standard_normal((1, 63, C)).astype(dtype), [None, None])
    reference = [KeyValueCache(cache.k, cache.v) for cache in caches]
    step = TokenStep.of(*decoder)
    # the buffer of 64 positions grows on the way
    for length in (63, 64, 65):
        x = rng.standard_normal((1, 1, C)).astype(dtype)
        before = [cache.k.copy() for cache in caches]
        y, after = step(x, caches)
        expected, reference = by_layers(decoder, x, reference)
        assert y.shape == (1, 1, V)
        assert y.dtype == dtype
        assert [len(cache) for cache in after] == [length + 1] * 2
        tolerance = 1e-4 if dtype == np.float32 else 1e-11
        np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance)
        for past, old, found, wanted in zip(caches, before, after, reference):
            assert np.array_equal(past.k, old)
            np.testing.assert_allclose(found.k, wanted.k, rtol=tolerance, atol=tolerance)
            np.testing.assert_allclose(found.v, wanted.v, rtol=tolerance, atol=tolerance)
        caches = after


def test_a_decoder_of_one_block_is_taken(rng):
    blocks, norm, head = decoder_of(rng)
    decoder = blocks[:1], norm, head
    _, caches = by_layers(decoder, rng.standard_normal((1, 3, C)), [None])
    x = rng.standard_normal((1, 1, C))
    y, after = TokenStep.of(*decoder)(x, caches)
    wanted, _ = by_layers(decoder, x, [KeyValueCache(caches[0].k, caches[0].v)])
    np.testing.assert_allclose(y, wanted, rtol=1e-11, atol=1e-11)
    assert len(after) == 1 and len(after[0]) == 4


@pytest.mark.parametrize("options", [
    dict(attention=OwnAttention), dict(feedforward=OwnFeedForward),
    dict(norms=(LayerNorm, RMSNorm)), dict(norms=(RMSNorm, LayerNorm)),
    dict(norms=(OwnNorm, OwnNorm)), dict(inside=(True, False)), dict(inside=(False, True)),
    dict(order="post"), dict(block=ParallelBlock)], ids=str)
def test_decoders_with_unknown_parts_are_not_taken(options, rng):
    assert TokenStep.of(*decoder_of(rng, **options)) is None
    assert TokenStep.of(*decoder_of(rng)) is not None


@pytest.mark.parametrize("other", [
    dict(activation="relu"), dict(width=8), dict(bias=False), dict(n_kv_heads=1),
    dict(positions=ALiBi(3)), dict(query_key_norm=True),
    dict(positions=RotaryPositions(4)), dict(feedforward=GatedFeedForward),
    dict(norms=(RMSNorm, RMSNorm)), dict(order="post"),
    dict(inside=(False, False))], ids=str)
def test_decoders_of_different_blocks_are_not_taken(other, rng):
    assert TokenStep.of(*decoder_of(rng, other)) is None
    assert TokenStep.of(*decoder_of(rng, {})) is not None


def test_decoders_of_different_rotary_positions_are_not_taken(rng):
    for one, two in ((RotaryPositions(4), RotaryPositions(4, 50.0)),
                     (RotaryPositions(4), RotaryPositions(4, layout="interleaved"))):
        assert TokenStep.of(*decoder_of(rng, dict(positions=two), positions=one)) is None


def test_weights_of_another_precision_or_layout_are_not_taken(rng):
    """Nor is a final norm of another kind, nor a decoder without blocks."""
    blocks, norm, head = decoder_of(rng)
    for parameter in (blocks[1].attention.key.bias, blocks[0].feedforward.output.weight,
                      head.weight):
        usual = parameter.data
        for wrong in (usual.astype(np.float32), usual.astype(complex),
                      np.repeat(usual, 2, axis=-1)[..., ::2]):
            parameter.data = wrong
            assert TokenStep.of(blocks, norm, head) is None
        parameter.data = usual
    assert TokenStep.of(blocks, RMSNorm(C, dtype=np.float64), head) is None
    assert TokenStep.of(blocks, LayerNorm(C, epsilon_inside=False, dtype=np.float64), head) is None
    assert TokenStep.of([], norm, head) is None and TokenStep.of(blocks, norm, head) is not None


def test_a_step_is_valid_for_the_arrays_it_was_built_from(rng):
    decoder, other = decoder_of(rng), decoder_of(rng)
    step = TokenStep.of(*decoder)
    assert step.is_of(*decoder)
    assert not step.is_of(*other)
    assert not step.is_of(decoder[0], other[1], decoder[2])
    # in place: the kernel reads it
    decoder[0][1].norm2.weight.data += 1
    assert step.is_of(*decoder)
    decoder[0][1].norm2.weight.data = decoder[0][1].norm2.weight.data + 1
    assert not step.is_of(*decoder)


def config(**more):
    return DecoderConfig(**dict(vocab_size=V, context_length=80, n_layers=3, n_heads=4,
                                d_model=32) | more)


def test_the_decoder_uses_the_step_for_one_token_of_one_sequence(rng, monkeypatch):
    """And keeps it in the cache for the next token; otherwise it runs the layers."""
    model, ids = Decoder(config(), rng), rng.integers(0, V, (2, 8))
    taken, call = [], TokenStep.__call__
    monkeypatch.setattr(TokenStep, "__call__",
                        lambda self, *given: taken.append(self) or call(self, *given))
    _, cache = model.step(ids[:1])
    _, pair = model.step(ids, left_padding=np.array([0, 2]))
    _, alone = model.step(ids[:1], left_padding=np.array([2]))
    model.step(ids[:1, :2], cache)
    model.step(ids[:, :1], pair)
    model.step(ids[:1, :1], alone)
    model.step(ids[:1, :1])
    assert not taken
    one, after = model.step(ids[:1, :1], cache)
    two, later = model.step(ids[:1, 1:2], after)
    assert len(taken) == 2 and taken[0] is taken[1] is later.compiled
    model.head.weight.data = model.head.weight.data.copy()
    model.step(ids[:1, 1:2], after)
    assert len(taken) == 3 and taken[2] is not taken[1]
    backend.use("numpy")
    try:
        reference, after = model.step(ids[:1, :1], cache)
        np.testing.assert_allclose(one, reference, rtol=1e-4, atol=1e-5)
        reference, _ = model.step(ids[:1, 1:2], later)
        assert len(taken) == 3
    finally:
        backend.use("numba")
    np.testing.assert_allclose(two[0, 0], model.step(ids[:1, :2], cache)[0][0, 1], rtol=1e-4,
                               atol=1e-5)


def test_bits_do_not_depend_on_the_number_of_threads(rng, monkeypatch):
    model, found, tasks = Decoder(config(), rng), [], []
    run = dispatch.run_with_helpers
    monkeypatch.setattr(dispatch, "run_with_helpers",
                        lambda work, items: tasks.append(len(items)) or run(work, items))
    monkeypatch.setattr(dispatch, "PARALLEL_FROM", 0)
    for threads in (1, 2, 3, 8):
        with backend.threads(threads):
            _, cache = model.step(np.array([[1, 2, 3]]))
            for token in range(60):
                logits, cache = model.step(np.array([[token % V]]), cache)
            found.append(logits)
    assert all(np.array_equal(found[0], other) for other in found) and {1, 2, 3, 4} <= set(tasks)
    assert np.isfinite(found[0]).all() and found[0].std() > 0
