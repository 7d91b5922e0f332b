"""Relative and concatenated positions: in attention, step by step, shared by a stack."""

import numpy as np
import pytest

from numformer import functional as F
from numformer.backend import dispatch
from numformer.functional import CAUSAL, EVERYWHERE, AttentionPattern
from numformer.layers import (
    ConcatenatedPositions, FeedForward, LayerNorm, LearnedPositions, MultiHeadAttention,
    RelativePositionBias,
    ResidualBranch, RotaryPositions, SelfAttentionBranch, ShawPositions, SinusoidalPositions,
    TransformerBlock, LMHead)
from numformer.layers.token_step import TokenStep
from numformer.parameter import Layer, Parameter
from numformer.verify import LAYER_BOUND, gradcheck


def moved(layer, rng):
    """No parameter at a special value."""
    for parameter in layer.parameters():
        noise = 0.5 * rng.standard_normal(parameter.data.shape)
        parameter.data += noise.astype(parameter.data.dtype)
    return layer


def bias_of(rng, **options):
    return moved(RelativePositionBias(2, rng, **{**dict(n_buckets=8, max_distance=7), **options},
                                      dtype=np.float64), rng)


def shaw_of(rng):
    return moved(ShawPositions(4, 2, rng, dtype=np.float64), rng)


def attention(rng, positions, **options):
    return moved(MultiHeadAttention(8, 2, rng, positions=positions, dtype=np.float64, **options),
                 rng)


def block_of(attention, rng):
    feedforward = FeedForward(8, 5, "gelu", rng, dtype=np.float64)
    return TransformerBlock(
        attention=SelfAttentionBranch(LayerNorm(8, dtype=np.float64), attention),
        feedforward=ResidualBranch(LayerNorm(8, dtype=np.float64), feedforward))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_masked_keys_and_values_do_not_leak_into_relative_attention(bad, rng):
    layer = attention(rng, shaw_of(rng))
    q, k, v = rng.standard_normal((3, 1, 2, 4, 4))
    k[0, 0, 3, 1] = v[0, 1, 3, 2] = bad
    o, saved = layer.positions.forward(q, k, v, AttentionPattern(lengths=[3]))
    assert np.isfinite(o).all()
    assert all(np.isfinite(g).all() for g in layer.positions.backward(np.ones_like(o), saved))
    shown = layer.positions(q, k, v, CAUSAL)
    assert not np.isfinite(shown[0, :, 3]).all() and np.isfinite(shown[0, :, :3]).all()


POSITIONS = {"T5, two ways": bias_of, "T5, one way": lambda rng: bias_of(rng, bidirectional=False),
             "Shaw": shaw_of}


@pytest.mark.parametrize("name", POSITIONS)
def test_steps_with_relative_positions_equal_the_forward(name, rng):
    layer = attention(rng, POSITIONS[name](rng), n_kv_heads=1, scale=0.8)
    x = rng.standard_normal((2, 12, 8))
    cache, parts = None, []
    for start, stop in ((0, 5), (5, 6), (6, 7), (7, 12)):
        y, cache = layer.step(x[:, start:stop], cache)
        parts.append(y)
    np.testing.assert_allclose(np.concatenate(parts, axis=1), layer(x, pattern=CAUSAL), rtol=1e-10,
                               atol=1e-12)
    y, _ = layer.step(x[:, :3], None, EVERYWHERE)
    np.testing.assert_allclose(y, layer(x[:, :3]), rtol=1e-12)


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("pattern", [EVERYWHERE, AttentionPattern(causal=True, lengths=[6, 3])])
def test_weights_are_those_of_the_forward(name, pattern, rng):
    """The weighted values, projected, are the output."""
    layer = attention(rng, POSITIONS[name](rng), bias=False, scale=0.8)
    if name == "Shaw":
        layer.positions.values.data[...] = 0
    x = rng.standard_normal((2, 6, 8))
    p = layer.attention_weights(layer.forward(x, pattern=pattern)[1])
    v = (x @ layer.value.weight.data).reshape(2, 6, 2, 4).transpose(0, 2, 1, 3)
    wanted = (p @ v).transpose(0, 2, 1, 3).reshape(2, 6, 8) @ layer.output.weight.data
    np.testing.assert_allclose(layer(x, pattern=pattern), wanted, rtol=1e-11, atol=1e-13)
    assert np.array_equal(p > 0, np.broadcast_to(pattern.dense(6, 6), p.shape))


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-5), (np.float64, 1e-12)])
def test_the_compiled_kernel_adds_the_bias(dtype, tolerance, rng, monkeypatch):
    """Equal to the reference, softmax(scores + bias), also for T != S."""
    pytest.importorskip("numba")
    layer = MultiHeadAttention(8, 2, rng,
                               positions=RelativePositionBias(2, rng, 8, 7, std=1.0, dtype=dtype),
                               scale=1.0, dtype=dtype)
    x = rng.standard_normal((2, 5, 8)).astype(dtype)
    context = rng.standard_normal((2, 9, 8)).astype(dtype)
    with monkeypatch.context() as patch:                              # the reference may not run
        patch.setattr(dispatch, "reference", None)
        y = layer(x, context, CAUSAL)
    q = layer.query(x).reshape(2, 5, 2, 4).transpose(0, 2, 1, 3)
    k, v = (part(context).reshape(2, 9, 2, 4).transpose(0, 2, 1, 3)
            for part in (layer.key, layer.value))
    p, _ = F.softmax(layer.positions(q @ k.mT), mask=CAUSAL.dense(5, 9))
    wanted = layer.output((p @ v).transpose(0, 2, 1, 3).reshape(2, 5, 8))
    np.testing.assert_allclose(y, wanted, rtol=tolerance, atol=tolerance)


class Stack(Layer):
    """Two blocks whose attentions share one table, as T5's do; the second is local."""

    def __init__(self, rng):
        table = RelativePositionBias(2, rng, 8, 6, dtype=np.float64)
        self.blocks = [block_of(attention(rng, table, scale=1.0), rng) for _ in range(2)]

    def forward(self, x):
        saved = []
        for block, pattern in zip(self.blocks, (CAUSAL, CAUSAL.local((1, 0)))):
            x, saved_block = block.forward(x, pattern=pattern)
            saved.append(saved_block)
        return x, saved

    def backward(self, dy, saved):
        for block, saved_block in zip(self.blocks[::-1], saved[::-1]):
            dy = block.backward(dy, saved_block)
        return dy


@pytest.mark.slow
def test_a_table_shared_by_a_stack_is_one_parameter(rng):
    """Saved and counted once; its gradient is the sum over layers; replicas share theirs."""
    stack, x = moved(Stack(rng), rng), rng.standard_normal((1, 6, 8))
    names = [name for name, _ in stack.named_parameters() if "positions" in name]
    assert names == ["blocks.0.attention.positions.weight"]
    report = gradcheck(stack, [x], bound=LAYER_BOUND)
    assert report.ok, str(report)
    copy = stack.replica()
    one, other = (block.attention.positions for block in copy.blocks)
    assert one is other is not stack.blocks[0].attention.positions
    assert np.array_equal(copy(x), stack(x))


def test_initial_tables_have_the_documented_deviation(rng):
    table = RelativePositionBias(64, rng)
    assert table.weight.data.shape == (32, 64)
    assert table.max_distance == 128 and table.bidirectional is True
    assert abs(table.weight.data.std() / 0.02 - 1) < 0.1 and table.weight.data.dtype == np.float32
    shaw = ShawPositions(50, 16, rng)
    assert shaw.keys.data.shape == shaw.values.data.shape == (33, 50)
    assert not np.array_equal(shaw.keys.data, shaw.values.data)
    assert abs(shaw.keys.data.std() / 0.02 - 1) < 0.1
    assert abs(shaw.values.data.std() / 0.02 - 1) < 0.1
    assert ShawPositions(1, 1, rng).keys.data.shape == (3, 1)
    assert RelativePositionBias(1, rng, 2, 2, False)(np.ones((1, 1, 1, 1), "f")).size


@pytest.mark.parametrize("make, error, words", [
    (lambda r: RelativePositionBias(0, r), ValueError, "n_heads=0"),
    (lambda r: RelativePositionBias(2, r, 7), ValueError, "n_buckets=7"),
    (lambda r: RelativePositionBias(2, r, 2), ValueError, "2 buckets or more"),
    (lambda r: RelativePositionBias(2, r, 32, 8), ValueError, "max_distance=8"),
    (lambda r: RelativePositionBias(2, r, bidirectional=1), TypeError, "bidirectional=1"),
    (lambda r: RelativePositionBias(2, 3), TypeError, "rng must be"),
    (lambda r: ShawPositions(0, 2, r), ValueError, "d_head=0"),
    (lambda r: ShawPositions(4, 0, r), ValueError, "max_distance=0"),
    (lambda r: MultiHeadAttention(8, 2, r, positions=RelativePositionBias(3, r)), ValueError,
     "does not fit n_heads=2"),
    (lambda r: MultiHeadAttention(8, 2, r, positions=ShawPositions(8, 2, r)), ValueError,
     "heads of width 4"),
    (lambda r: MultiHeadAttention(8, 2, r, positions="shaw"), TypeError, "or None, but is 'shaw'"),
    (lambda r: MultiHeadAttention(8, 2, r, scale=0.0), ValueError, "MultiHeadAttention: scale=0.0"),
    (lambda r: MultiHeadAttention(8, 2, r, scale=True), ValueError,
     "MultiHeadAttention: scale=True"),
    (lambda r: ConcatenatedPositions(RotaryPositions(4)), TypeError,
     "SinusoidalPositions or LearnedPositions")])
def test_bad_options_of_positions_are_named(make, error, words, rng):
    with pytest.raises(error) as caught:
        make(rng)
    assert words in str(caught.value)


def test_the_scale_of_scores_is_1_over_sqrt_d_unless_given(rng):
    """T5 uses 1.0."""
    layers = [MultiHeadAttention(8, 2, np.random.default_rng(1), scale=scale, dtype=np.float64)
              for scale in (None, 0.5, 1.0)]
    x = rng.standard_normal((1, 5, 8))
    for call in (lambda layer: layer(x), lambda layer: layer.step(x)[0],
                 lambda layer: layer.attention_weights(layer.forward(x)[1])):
        usual, same, unscaled = map(call, layers)
        np.testing.assert_allclose(same, usual, rtol=1e-13)
        assert not np.allclose(unscaled, usual, rtol=1e-3)


@pytest.mark.parametrize("options", [
    dict(positions=bias_of), dict(positions=shaw_of), dict(scale=1.0), dict(scale=0.5)],
                         ids=["bias by distance", "Shaw", "scale 1", "scale 0.5"])
def test_the_compiled_step_does_not_take_bias_shaw_or_scale(options, rng):
    pytest.importorskip("numba")

    def step_of(positions=None, **options):
        blocks = [block_of(attention(rng, positions and positions(rng), **options), rng)
                  for _ in range(2)]
        return TokenStep.of(blocks, LayerNorm(8, dtype=np.float64),
                            LMHead(Parameter(rng.standard_normal((5, 8)))))

    assert step_of() is not None and step_of(**options) is None


@pytest.mark.parametrize("start", [0, 3, np.array([-1, 2])], ids=str)
def test_concatenated_positions_leave_the_token_as_it_is(start, rng):
    x, nothing = rng.standard_normal((2, 4, 5)), np.zeros((2, 4, 6))
    for inside in (SinusoidalPositions(6), LearnedPositions(9, 6, rng, dtype=np.float64)):
        y = ConcatenatedPositions(inside)(x, start=start)
        assert y.shape == (2, 4, 11)
        assert np.array_equal(y[..., :5], x)
        assert np.array_equal(y[..., 5:], inside(nothing, start=start))


def test_adding_positions_equals_concatenating_and_projecting(rng):
    x, positions = rng.standard_normal((1, 7, 6)), SinusoidalPositions(6)
    both = np.concatenate([np.eye(6), np.eye(6)])
    np.testing.assert_allclose(ConcatenatedPositions(positions)(x) @ both, positions(x), rtol=1e-14,
                               atol=1e-15)
