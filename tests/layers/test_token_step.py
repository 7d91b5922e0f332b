"""The compiled step: which decoders it takes, and that it equals their layers."""

from functools import partial

import numpy as np
import pytest

from numformer.layers import (
    ALiBi, FeedForward, GatedFeedForward, Identity, LayerNorm, Linear, LMHead, LocalAttentionBranch,
    MultiHeadAttention, ParallelBlock, RelativePositionBias, ResidualBranch, RMSNorm,
    RotaryPositions, SelfAttentionBranch, ShawPositions, SoftCappedLMHead, TransformerBlock)
from numformer.layers.token_step import TokenStep
from numformer.parameter import Parameter

pytest.importorskip("numba")
C, V = 12, 9
YARN = dict(kind="yarn", factor=4.0, original_length=64)


class OwnAttention(MultiHeadAttention):
    pass


class OwnFeedForward(FeedForward):
    pass


ONE_PLUS = partial(RMSNorm, unit_offset=True)         # its name is the same in every process


class OwnNorm(RMSNorm):
    pass


class OwnLinear(Linear):
    pass


class OwnHead(LMHead):
    pass


class OwnRotary(RotaryPositions):
    pass


class OwnALiBi(ALiBi):
    pass


def block_of(rng, dtype=np.float64, norms=(LayerNorm, LayerNorm), inside=(True, True),
             attention=MultiHeadAttention,
             order="pre", block=TransformerBlock, feedforward=FeedForward, activation="gelu",
             width=7, bias=True, branch=SelfAttentionBranch, **options):
    """A block in which all numbers differ, so that none can be taken for another."""
    first, second = (norm(C, epsilon=epsilon, epsilon_inside=where, dtype=dtype)
                     for norm, epsilon, where in zip(norms, 0.1 + rng.random(2), inside))
    attention = attention(C, 3, rng, bias=bias, dtype=dtype, **options)
    feedforward = feedforward(C, width, activation, rng, bias, dtype=dtype)
    block = block(attention=branch(first, attention, order),
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
    norm = options.get("norms", (LayerNorm,))[0](
        C, epsilon=0.7, epsilon_inside=blocks[0].norm1.epsilon_inside, dtype=dtype)
    norm.weight.data += rng.standard_normal(C).astype(dtype)
    return blocks, norm, LMHead(Parameter(rng.standard_normal((V, C)).astype(dtype)))


def by_layers(decoder, x, caches, start=0):
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
    dict(positions=RotaryPositions(4)), dict(width=50),
    dict(positions=RotaryPositions(4, scaling=dict(kind="linear", factor=3.0))),
    dict(positions=RotaryPositions(4, scaling=YARN), query_key_norm=True),
    dict(d_head=6, qkv_bias=True, bias=False, positions=RotaryPositions(6)),
    dict(d_head=2, qkv_bias=False, query_key_norm=True, n_kv_heads=1),
    dict(positions=RotaryPositions(4, 50.0, "interleaved"), query_key_norm=True, bias=False),
    dict(feedforward=GatedFeedForward, activation="relu", query_key_norm=True),
    dict(norms=(ONE_PLUS, ONE_PLUS), feedforward=GatedFeedForward, activation="gelu_tanh",
         query_key_norm=True, unit_offset=True, positions=RotaryPositions(4)),
    dict(activation="quick_gelu")], ids=str)
def test_a_compiled_step_equals_the_step_of_the_layers(options, dtype, rng):
    """For texts of different lengths that grow by any number of tokens, over several pages."""
    decoder = decoder_of(rng, dtype=dtype, **options)
    step, lengths = TokenStep.of(*decoder), [np.array([4, 1, 23]), np.array([1, 1, 1]),
                                             np.array([70, 100, 3]), np.array([1, 1, 1])]
    cache, tolerance = step.begin(3), 1e-4 if dtype == np.float32 else 1e-11
    by_text = [[None] * 2 for _ in range(3)]
    pages = cache.pages
    for new in lengths:
        T = new.max()
        x = rng.standard_normal((3, T, C)).astype(dtype)
        y, after = step(x, pages, T - new)
        only_last, _ = step(x, pages, T - new, last=True)
        assert np.array_equal(only_last, y[:, -1:]) and y.dtype == dtype and y.shape == (3, T, V)
        assert after.lengths.tolist() == (pages.lengths + new).tolist()
        for b in range(3):
            expected, by_text[b] = by_layers(decoder, x[b:b + 1, T - new[b]:], by_text[b])
            np.testing.assert_allclose(y[b, T - new[b]:], expected[0], rtol=tolerance,
                                       atol=tolerance)
            assert (y[b, :T - new[b]] == 0).all()
        pages = after
    for layer in range(2):
        k, v = pages.keys_and_values(layer, options.get("d_head", 4))
        for b, found in enumerate(by_text):
            for ours, theirs in ((k, found[layer].k), (v, found[layer].v)):
                padding = ours.shape[2] - theirs.shape[2]
                np.testing.assert_allclose(ours[b, :, padding:], theirs[0], rtol=tolerance,
                                           atol=tolerance)
                assert (ours[b, :, :padding] == 0).all()


def test_a_decoder_of_one_block_is_taken(rng):
    blocks, norm, head = decoder_of(rng)
    decoder, x = (blocks[:1], norm, head), rng.standard_normal((1, 4, C))
    step = TokenStep.of(*decoder)
    y, after = step(x, step.begin(1).pages)
    np.testing.assert_allclose(y, by_layers(decoder, x, [None])[0], rtol=1e-11, atol=1e-11)
    assert len(after) == 4


@pytest.mark.parametrize("options", [
    dict(attention=OwnAttention), dict(feedforward=OwnFeedForward),
    dict(norms=(LayerNorm, RMSNorm)), dict(norms=(RMSNorm, LayerNorm)),
    dict(norms=(OwnNorm, OwnNorm)), dict(inside=(True, False)), dict(inside=(False, True)),
    dict(order="post"), dict(block=ParallelBlock), dict(positions=OwnRotary(4)),
    dict(branch=partial(LocalAttentionBranch, window=(3, 0))),
    dict(positions=OwnALiBi(3)), dict(scale=0.4), dict(softcap=2.0),
    dict(positions=RelativePositionBias(3, np.random.default_rng(0), dtype=np.float64)),
    dict(positions=ShawPositions(4, 2, np.random.default_rng(0), dtype=np.float64))], ids=str)
def test_decoders_with_unknown_parts_are_not_taken(options, rng):
    assert TokenStep.of(*decoder_of(rng, **options)) is None
    assert TokenStep.of(*decoder_of(rng)) is not None


def other_linear(rng, C, width, kind=Linear):
    return kind(C, width, rng, dtype=np.float64)


LOOK_ALIKES = {                         # what replaces a part of the second block
    "LayerNorm on q": lambda block, rng: setattr(
        block.attention, "query_norm", LayerNorm(4, dtype=np.float64)),
    "another RMSNorm on k": lambda block, rng: setattr(
        block.attention, "key_norm", OwnNorm(4, dtype=np.float64)),
    "RMSNorm on k alone": lambda block, rng: setattr(
        block.attention, "key_norm", RMSNorm(4, dtype=np.float64)),
    "epsilon outside": lambda block, rng: [setattr(block.attention, name, RMSNorm(
        4, epsilon_inside=False, dtype=np.float64)) for name in ("query_norm", "key_norm")],
    "norm over all heads": lambda block, rng: [setattr(block.attention, name, RMSNorm(
        12, dtype=np.float64)) for name in ("query_norm", "key_norm")],
    "no first norm": lambda block, rng: (
        setattr(block.branches["attention"], "input_norm", Identity()),
        setattr(block, "norm1", Identity())),
    "a norm replaced by name alone": lambda block, rng: setattr(
        block, "norm2", LayerNorm(C, dtype=np.float64)),
    "attention replaced by name alone": lambda block, rng: setattr(
        block, "attention", MultiHeadAttention(C, 3, rng, dtype=np.float64)),
    "another width of heads": lambda block, rng: setattr(block.attention, "d_head", 2),
    "another linear map": lambda block, rng: setattr(
        block.attention, "key", other_linear(rng, C, C, OwnLinear)),
    "wide values": lambda block, rng: setattr(
        block.attention, "value", other_linear(rng, C, 2 * C)),
    "a narrow output": lambda block, rng: setattr(
        block.feedforward, "output", other_linear(rng, 5, C)),
    "no linear map": lambda block, rng: setattr(block.feedforward, "hidden", OwnFeedForward(
        C, 7, "relu", rng)),
    "a short norm": lambda block, rng: setattr(
        block.norm1.weight, "data", np.ones(1)),
    "a bias for each head": lambda block, rng: setattr(
        block.attention.query.bias, "data", np.ones((3, 4))),
    "another positions' width": lambda block, rng: setattr(
        block.attention, "positions", RotaryPositions(2)),
    "rotary positions on a part of a head": lambda block, rng: setattr(
        block.attention, "positions", RotaryPositions(4, d_rotary=2)),
    "slopes of other heads": lambda block, rng: setattr(block.attention, "positions", ALiBi(4)),
    "an activation of its own": lambda block, rng: setattr(
        block.feedforward, "activation", "softsign"),
}


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_parts_that_look_alike_are_not_taken(name, rng):
    blocks, norm, head = decoder_of(rng)
    assert TokenStep.of(blocks[1:], norm, head) is not None
    LOOK_ALIKES[name](blocks[1], rng)
    assert TokenStep.of(blocks[1:], norm, head) is None
    assert TokenStep.of(blocks, norm, head) is None


def test_heads_that_look_alike_are_not_taken(rng):
    blocks, norm, head = decoder_of(rng)
    for other in (OwnHead(head.weight), SoftCappedLMHead(head.weight, cap=3.0),
                  Linear(C, V, rng, dtype=np.float64),
                  LMHead(Parameter(rng.standard_normal((V, C + 1)))),
                  LMHead(head.weight, Parameter(rng.standard_normal(V)))):
        assert TokenStep.of(blocks, norm, other) is None
    assert TokenStep.of(blocks, norm, head) is not None


@pytest.mark.parametrize("other", [
    dict(activation="relu"), dict(width=8), dict(bias=False), dict(n_kv_heads=1), dict(d_head=2),
    dict(qkv_bias=False),
    dict(positions=ALiBi(3)), dict(query_key_norm=True),
    dict(positions=RotaryPositions(4)), dict(feedforward=GatedFeedForward),
    dict(norms=(RMSNorm, RMSNorm)), dict(order="post"),
    dict(inside=(False, False)), dict(branch=partial(LocalAttentionBranch, window=(3, 0)))],
    ids=str)
def test_decoders_of_different_blocks_are_not_taken(other, rng):
    assert TokenStep.of(*decoder_of(rng, other)) is None
    assert TokenStep.of(*decoder_of(rng, {})) is not None


def test_decoders_of_different_rotary_positions_are_not_taken(rng):
    for one, two in ((RotaryPositions(4), RotaryPositions(4, 50.0)),
                     (RotaryPositions(4), RotaryPositions(4, layout="interleaved")),
                     (RotaryPositions(4), RotaryPositions(4, scaling=YARN)),
                     (RotaryPositions(4, d_rotary=2), RotaryPositions(4, d_rotary=2)),
                     (RotaryPositions(4, scaling=YARN), RotaryPositions(
                         4, scaling={**YARN, "attention_factor": 1.0}))):
        assert TokenStep.of(*decoder_of(rng, dict(positions=two), positions=one)) is None


def test_weights_of_another_precision_are_not_taken_of_another_layout_they_are(rng):
    """Nor is a final norm of another kind, nor a decoder without blocks."""
    blocks, norm, head = decoder_of(rng)
    x = rng.standard_normal((1, 3, C))
    for parameter in (blocks[1].attention.key.bias, blocks[0].feedforward.output.weight,
                      head.weight):
        usual = parameter.data
        for wrong in (usual.astype(np.float32), usual.astype(complex)):
            set_data(parameter, wrong)
            assert TokenStep.of(blocks, norm, head) is None
        set_data(parameter, np.repeat(usual, 2, axis=-1)[..., ::2])
        step = TokenStep.of(blocks, norm, head)
        np.testing.assert_allclose(step(x, step.begin(1).pages)[0],
                                   by_layers((blocks, norm, head), x, [None] * 2)[0], rtol=1e-11)
        set_data(parameter, usual)
    assert TokenStep.of(blocks, RMSNorm(C, dtype=np.float64), head) is None
    assert TokenStep.of(blocks, LayerNorm(C, epsilon_inside=False, dtype=np.float64), head) is None
    assert TokenStep.of([], norm, head) is None and TokenStep.of(blocks, norm, head) is not None


def set_data(parameter, data):
    parameter.data = data
