"""Positions that are relative, or stand beside the vectors: in the functions, in attention, step by step, and shared by a stack."""

import numpy as np
import pytest

from numformer import functional as F
from numformer.functional import CAUSAL, EVERYWHERE, AttentionPattern, layer_patterns
from numformer.layers import (
    ConcatenatedPositions, FeedForward, LayerNorm, LearnedPositions, MultiHeadAttention, PreNormBlock, RelativePositionBias,
    RotaryPositions, ShawPositions, SinusoidalPositions, Unembedding)
from numformer.layers.token_step import TokenStep
from numformer.parameter import Layer, Parameter
from numformer.verify import LAYER, gradcheck


def moved(layer, rng):
    """No parameter at a special value."""
    for parameter in layer.parameters():
        parameter.data += 0.5 * rng.standard_normal(parameter.data.shape).astype(parameter.data.dtype)
    return layer


def bias_of(rng, **options):
    return moved(RelativePositionBias(2, rng, **{**dict(n_buckets=8, max_distance=7), **options}, dtype=np.float64), rng)


def shaw_of(rng):
    return moved(ShawPositions(4, 2, rng, dtype=np.float64), rng)


def attention(rng, positions, **options):
    return moved(MultiHeadAttention(8, 2, rng, positions=positions, dtype=np.float64, **options), rng)


@pytest.mark.parametrize("call, error, words", [
    (lambda q: F.relative_scores(q[None], np.ones((4, 4)), 3), ValueError, "has 4 rows, but must have 2 K + 1"),
    (lambda q: F.relative_scores(q[None], np.ones((3, 2)), 3), ValueError, "D=4"),
    (lambda q: F.relative_scores(q[None], np.ones((3, 4)), 0), ValueError, "S=0"),
    (lambda q: F.relative_values(q[None], np.ones((2, 4))), ValueError, "give it 3"),
    (lambda q: F.relative_attention(q[None], q[None], q[None], np.ones((3, 4)), np.ones((2, 4))), ValueError, "value_table of shape"),
    (lambda q: F.relative_attention(q[None], q[None], q[None], np.ones((3, 3)), np.ones((3, 4))), ValueError, "key_table must"),
    (lambda q: F.relative_attention(q[None], q[None], q[None], np.ones((3, 4)), np.ones((3, 4)), CAUSAL, -1.0), ValueError,
     "relative_attention: scale=-1.0"),
    (lambda q: F.relative_attention(q[None], q[None], q[None], np.ones((3, 4)), np.ones((3, 4)), dropout=1.0), ValueError,
     "relative_attention: dropout=1.0"),
    (lambda q: F.relative_attention(q[None], q[None], q[None, :, :2], np.ones((3, 4)), np.ones((3, 4))), ValueError, "v must have shape")])
def test_what_functions_refuse(call, error, words):
    with pytest.raises(error) as caught:
        call(np.ones((2, 3, 4)))
    assert words in str(caught.value)


@pytest.mark.parametrize("T, S", [(1, 1), (4, 4), (2, 6), (6, 2)])
def test_relative_attention_by_its_definition(T, S, rng):
    q, (k, v) = rng.standard_normal((2, 4, T, 3)), rng.standard_normal((2, 2, 2, S, 3))
    keys, values = rng.standard_normal((5, 3)), rng.standard_normal((3, 3))
    pattern = AttentionPattern(causal=True)
    o, _ = F.relative_attention(q, k, v, keys, values, pattern, scale=0.6)
    p = F.relative_attention_weights(q, k, keys, pattern, scale=0.6)
    for b, h, i in np.ndindex(2, 4, T):
        distance = [j - (i + S - T) for j in range(S)]
        seen = [j for j in range(S) if distance[j] <= 0]
        e = {j: np.exp(0.6 * q[b, h, i] @ (k[b, h // 2, j] + keys[max(distance[j], -2) + 2])) for j in seen}
        wanted = sum((e[j] / sum(e.values()) * (v[b, h // 2, j] + values[max(distance[j], -1) + 1]) for j in seen), np.zeros(3))
        np.testing.assert_allclose(o[b, h, i], wanted, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(p[b, h, i], [e[j] / sum(e.values()) if j in e else 0 for j in range(S)], rtol=1e-12)


def test_relative_attention_with_empty_tables_is_attention(rng):
    q, k, v = rng.standard_normal((3, 2, 2, 4, 3))
    nothing, options = np.zeros((3, 3)), dict(dropout=0.4, seed=3)
    pattern = AttentionPattern(causal=True, lengths=[4, 0])
    one, saved_one = F.relative_attention(q, k, v, nothing, nothing, pattern, **options)
    other, saved_other = F.scaled_dot_product_attention(q, k, v, pattern, **options)
    np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-15)
    assert not one[1].any()
    do = rng.standard_normal(one.shape)
    *gradients, dkeys, dvalues = F.relative_attention_backward(do, saved_one)
    for found, wanted in zip(gradients, F.scaled_dot_product_attention_backward(do, saved_other)):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)
    assert dkeys.any() and dvalues.any()
    without_seed, plain = (F.relative_attention(q, k, v, nothing, nothing, **more)[0] for more in (dict(dropout=0.4), dict()))
    assert np.array_equal(without_seed, plain)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_hidden_keys_and_values_do_not_leak_into_relative_attention(bad, rng):
    layer = attention(rng, shaw_of(rng))
    q, k, v = rng.standard_normal((3, 1, 2, 4, 4))
    k[0, 0, 3, 1] = v[0, 1, 3, 2] = bad
    o, saved = layer.relative.forward(q, k, v, AttentionPattern(lengths=[3]))
    assert np.isfinite(o).all() and all(np.isfinite(g).all() for g in layer.relative.backward(np.ones_like(o), saved))
    shown = layer.relative(q, k, v, CAUSAL)
    assert not np.isfinite(shown[0, :, 3]).all() and np.isfinite(shown[0, :, :3]).all()


POSITIONS = {"T5, two ways": bias_of, "T5, one way": lambda rng: bias_of(rng, bidirectional=False), "Shaw": shaw_of}


@pytest.mark.parametrize("name", POSITIONS)
def test_steps_with_relative_positions_are_the_whole(name, rng):
    layer, x = attention(rng, POSITIONS[name](rng), n_kv_heads=1, scale=0.8), rng.standard_normal((2, 12, 8))
    cache, parts = None, []
    for start, stop in ((0, 5), (5, 6), (6, 7), (7, 12)):
        y, cache = layer.step(x[:, start:stop], cache)
        parts.append(y)
    np.testing.assert_allclose(np.concatenate(parts, axis=1), layer(x, pattern=CAUSAL), rtol=1e-10, atol=1e-12)
    y, _ = layer.step(x[:, :3], None, EVERYWHERE)
    np.testing.assert_allclose(y, layer(x[:, :3]), rtol=1e-12)


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("pattern", [EVERYWHERE, AttentionPattern(causal=True, lengths=[6, 3])])
def test_weights_are_those_of_the_forward(name, pattern, rng):
    """Seen by values and outputs that let them through: an identity for W_V and W_O, one token at a time."""
    layer = attention(rng, POSITIONS[name](rng), bias=False, scale=0.8)
    if name == "Shaw":
        layer.relative.values.data[...] = 0
    x = rng.standard_normal((2, 6, 8))
    p = layer.weights(x, pattern=pattern)
    v = (x @ layer.value.weight.data).reshape(2, 6, 2, 4).transpose(0, 2, 1, 3)
    wanted = (p @ v).transpose(0, 2, 1, 3).reshape(2, 6, 8) @ layer.output.weight.data
    np.testing.assert_allclose(layer(x, pattern=pattern), wanted, rtol=1e-11, atol=1e-13)
    assert np.array_equal(p > 0, np.broadcast_to(pattern.dense(6, 6), p.shape))


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-5), (np.float64, 1e-12)])
def test_the_bias_goes_through_the_kernel(dtype, tolerance, rng):
    """Which must say what the truth says: scores + bias, for T != S too."""
    pytest.importorskip("numba")
    layer = MultiHeadAttention(8, 2, rng, positions=RelativePositionBias(2, rng, 8, 7, std=1.0, dtype=dtype), scale=1.0, dtype=dtype)
    x, context = rng.standard_normal((2, 5, 8)).astype(dtype), rng.standard_normal((2, 9, 8)).astype(dtype)
    y, saved = layer.forward(x, context, CAUSAL)
    assert saved[4][1][0] is not None, "the compiled twin was not taken"
    q = layer.query(x).reshape(2, 5, 2, 4).transpose(0, 2, 1, 3)
    k, v = (part(context).reshape(2, 9, 2, 4).transpose(0, 2, 1, 3) for part in (layer.key, layer.value))
    p, _ = F.softmax(layer.relative(q @ k.mT), mask=CAUSAL.dense(5, 9))
    wanted = layer.output((p @ v).transpose(0, 2, 1, 3).reshape(2, 5, 8))
    np.testing.assert_allclose(y, wanted, rtol=tolerance, atol=tolerance)


class Stack(Layer):
    """Two blocks whose attentions share one table, as T5's do; the second is local."""

    def __init__(self, rng):
        table = RelativePositionBias(2, rng, 8, 6, dtype=np.float64)
        self.blocks = [PreNormBlock(LayerNorm(8, dtype=np.float64), attention(rng, table, scale=1.0), LayerNorm(8, dtype=np.float64),
                                    FeedForward(8, 5, "gelu", rng, dtype=np.float64)) for _ in range(2)]

    def forward(self, x):
        saved = []
        for block, pattern in zip(self.blocks, layer_patterns(CAUSAL, 2, (1, 0), 2)):
            x, saved_block = block.forward(x, pattern)
            saved.append(saved_block)
        return x, saved

    def backward(self, dy, saved):
        for block, saved_block in zip(self.blocks[::-1], saved[::-1]):
            dy = block.backward(dy, saved_block)
        return dy


def test_one_table_for_a_whole_stack(rng):
    """One parameter, saved and counted once; its gradient is the sum of both layers', right to the last digits; replicas share too."""
    stack, x = moved(Stack(rng), rng), rng.standard_normal((1, 6, 8))
    names = [name for name, _ in stack.named_parameters() if "relative" in name]
    assert names == ["blocks.0.attention.relative.weight"]
    report = gradcheck(stack, [x], bound=LAYER)
    assert report.ok, str(report)
    copy = stack.replica()
    assert copy.blocks[0].attention.relative is copy.blocks[1].attention.relative is not stack.blocks[0].attention.relative
    assert np.array_equal(copy(x), stack(x))


def test_first_tables(rng):
    table = RelativePositionBias(64, rng)
    assert (table.weight.data.shape, table.max_distance, table.bidirectional) == ((32, 64), 128, True)
    assert abs(table.weight.data.std() / 0.02 - 1) < 0.1 and table.weight.data.dtype == np.float32
    shaw = ShawPositions(50, 16, rng)
    assert shaw.keys.data.shape == shaw.values.data.shape == (33, 50) and not np.array_equal(shaw.keys.data, shaw.values.data)
    assert abs(shaw.keys.data.std() / 0.02 - 1) < 0.1 and abs(shaw.values.data.std() / 0.02 - 1) < 0.1
    assert ShawPositions(1, 1, rng).keys.data.shape == (3, 1) and RelativePositionBias(1, rng, 2, 2, False)(np.ones((1, 1, 1, 1), "f")).size


@pytest.mark.parametrize("make, error, words", [
    (lambda r: RelativePositionBias(0, r), ValueError, "n_heads=0"), (lambda r: RelativePositionBias(2, r, 7), ValueError, "n_buckets=7"),
    (lambda r: RelativePositionBias(2, r, 2), ValueError, "2 buckets or more"),
    (lambda r: RelativePositionBias(2, r, 32, 8), ValueError, "max_distance=8"),
    (lambda r: RelativePositionBias(2, r, bidirectional=1), TypeError, "bidirectional=1"),
    (lambda r: RelativePositionBias(2, 3), TypeError, "rng must be"),
    (lambda r: ShawPositions(0, 2, r), ValueError, "d_head=0"), (lambda r: ShawPositions(4, 0, r), ValueError, "max_distance=0"),
    (lambda r: MultiHeadAttention(8, 2, r, positions=RelativePositionBias(3, r)), ValueError, "does not fit n_heads=2"),
    (lambda r: MultiHeadAttention(8, 2, r, positions=ShawPositions(8, 2, r)), ValueError, "heads of width 4"),
    (lambda r: MultiHeadAttention(8, 2, r, positions="shaw"), TypeError, "RelativePositionBias, ShawPositions or None, but is 'shaw'"),
    (lambda r: MultiHeadAttention(8, 2, r, scale=0.0), ValueError, "MultiHeadAttention: scale=0.0"),
    (lambda r: MultiHeadAttention(8, 2, r, scale=True), ValueError, "MultiHeadAttention: scale=True"),
    (lambda r: ConcatenatedPositions(RotaryPositions(4)), TypeError, "SinusoidalPositions or LearnedPositions")])
def test_what_positions_refuse(make, error, words, rng):
    with pytest.raises(error) as caught:
        make(rng)
    assert words in str(caught.value)


def test_scale_of_the_scores(rng):
    """1 / sqrt(D) unless given; given as that it is the same; T5's 1.0 is not."""
    layers = [MultiHeadAttention(8, 2, np.random.default_rng(1), scale=scale, dtype=np.float64) for scale in (None, 0.5, 1.0)]
    x = rng.standard_normal((1, 5, 8))
    for call in (lambda layer: layer(x), lambda layer: layer.step(x)[0], lambda layer: layer.weights(x)):
        usual, same, unscaled = map(call, layers)
        np.testing.assert_allclose(same, usual, rtol=1e-13)
        assert not np.allclose(unscaled, usual, rtol=1e-3)


@pytest.mark.parametrize("options", [dict(positions=bias_of), dict(positions=shaw_of), dict(scale=1.0), dict(scale=0.5)], ids=str)
def test_the_kernel_of_one_token_leaves_these_alone(options, rng):
    pytest.importorskip("numba")

    def step_of(positions=None, **options):
        blocks = [PreNormBlock(LayerNorm(8, dtype=np.float64), attention(rng, positions and positions(rng), **options),
                               LayerNorm(8, dtype=np.float64), FeedForward(8, 5, "gelu", rng, dtype=np.float64)) for _ in range(2)]
        return TokenStep.of(blocks, LayerNorm(8, dtype=np.float64), Unembedding(Parameter(rng.standard_normal((5, 8)))))

    assert step_of() is not None and step_of(**options) is None


@pytest.mark.parametrize("start", [0, 3, np.array([-1, 2])], ids=str)
def test_concatenated_positions(start, rng):
    x, nothing = rng.standard_normal((2, 4, 5)), np.zeros((2, 4, 6))
    for inside in (SinusoidalPositions(6), LearnedPositions(9, 6, rng, dtype=np.float64)):
        y = ConcatenatedPositions(inside)(x, start=start)
        assert y.shape == (2, 4, 11) and np.array_equal(y[..., :5], x) and np.array_equal(y[..., 5:], inside(nothing, start=start))


def test_adding_is_concatenating_and_a_projection(rng):
    x, positions = rng.standard_normal((1, 7, 6)), SinusoidalPositions(6)
    both = np.concatenate([np.eye(6), np.eye(6)])
    np.testing.assert_allclose(ConcatenatedPositions(positions)(x) @ both, positions(x), rtol=1e-14, atol=1e-15)
