"""Attention by its definition: empty rows, bounds of the options, refusals, alignment."""

import ast
import inspect

import numpy as np
import pytest

from numformer.functional import (
    CAUSAL, AttentionPattern, attention, attention_backward, attention_weights, repeat_kv_heads,
    scaled_dot_product_attention, scaled_dot_product_attention_backward, softmax)
from numformer.layers import ALiBi, MultiHeadAttention, RotaryPositions


def qkv(rng, T=4, S=5, H=2, G=2, D=3, B=2):
    shapes = (B, H, T, D), (B, G, S, D), (B, G, S, D)
    return [rng.standard_normal(shape) for shape in shapes]


def test_the_core_equals_its_definition(rng):
    q, k, v = qkv(rng)
    mask = rng.random((2, 2, 4, 5)) < 0.7
    mask[..., 0] = True
    o, _ = attention(q, k, v, mask)
    for b, h, i in np.ndindex(2, 2, 4):
        allowed = np.flatnonzero(mask[b, h, i])
        weights = np.exp(k[b, h, allowed] @ q[b, h, i] / np.sqrt(3))
        np.testing.assert_allclose(o[b, h, i], weights @ v[b, h, allowed] / weights.sum(),
                                   rtol=1e-13)


def test_the_core_has_four_arguments_and_at_most_40_lines_of_code():
    """The page that a student opens first: without docstrings and blank lines."""
    pair = ast.parse(inspect.getsource(attention) + "\n" + inspect.getsource(attention_backward))
    for function in pair.body:
        assert isinstance(function.body.pop(0).value, ast.Constant)  # the docstring
    assert len(ast.unparse(pair).replace("\n\n", "\n").split("\n")) <= 40
    assert list(inspect.signature(attention).parameters) == ["q", "k", "v", "mask"]


def test_attention_equals_its_definition(rng):
    q, k, v = qkv(rng, H=4)
    mask = rng.random((2, 4, 4, 5)) < 0.7
    mask[..., 0] = True
    o, _ = scaled_dot_product_attention(q, k, v, AttentionPattern(mask=mask), scale=0.3)
    for b, h, i in np.ndindex(2, 4, 4):
        allowed = np.flatnonzero(mask[b, h, i])
        weights = np.exp(0.3 * k[b, h // 2, allowed] @ q[b, h, i])
        np.testing.assert_allclose(o[b, h, i], weights @ v[b, h // 2, allowed] / weights.sum(),
                                   rtol=1e-13)


def test_a_query_that_may_attend_to_nothing_has_output_and_gradients_0(rng):
    q, k, v = qkv(rng)
    pattern = AttentionPattern(lengths=[3, 0])
    for o, gradients in (of_core(q, k, v, pattern.dense(4, 5)), of_composed(q, k, v, pattern)):
        assert (o[1] == 0).all() and (o[0] != 0).all()
        assert all((gradient[1] == 0).all() for gradient in gradients)
        assert (gradients[1][0, :, 3:] == 0).all() and (gradients[2][0, :, 3:] == 0).all()
    assert (attention_weights(q, k, pattern)[1] == 0).all()


def of_core(q, k, v, mask):
    o, saved = attention(q, k, v, mask)
    return o, attention_backward(np.ones_like(o), saved)


def of_composed(q, k, v, pattern):
    o, saved = scaled_dot_product_attention(q, k, v, pattern)
    return o, scaled_dot_product_attention_backward(np.ones_like(o), saved)


def test_large_scores_do_not_overflow(rng):
    q, k, v = qkv(rng)
    for o, gradients in (of_core(q * 1e4, k * 1e4, v, None),
                         of_composed(q * 1e4, k * 1e4, v, AttentionPattern())):
        assert np.isfinite(o).all() and all(np.isfinite(gradient).all() for gradient in gradients)


def test_shapes_that_do_not_fit_are_refused(rng):
    q, k, v = qkv(rng, H=3)
    with pytest.raises(ValueError, match="G=2"):
        scaled_dot_product_attention(q, k, v)
    with pytest.raises(ValueError, match="D=3"):
        scaled_dot_product_attention(q, k[..., :2], v)
    with pytest.raises(ValueError, match="S=5"):
        scaled_dot_product_attention(q[:, :2], k, v[:, :, :4])
    with pytest.raises(ValueError, match="attention: k must have shape .* H=3"):
        attention(q, k, v)
    with pytest.raises(ValueError, match="attention: v must have shape .* S=5"):
        attention(q[:, :2], k, v[:, :, :4])
    with pytest.raises(ValueError, match="softmax: mask of shape .4, 4. does not broadcast"):
        attention(q[:, :2], k, v, np.ones((4, 4), bool))
    with pytest.raises(ValueError, match="repeat_kv_heads: the G=2 .* divide the H=3"):
        repeat_kv_heads(k, 3)


@pytest.mark.parametrize("call, words", [
    (lambda q, k, v: scaled_dot_product_attention(q, k, v, np.ones((4, 5), bool)),
     "AttentionPattern(mask=mask)"),
    (lambda q, k, v: scaled_dot_product_attention(q, k, v, None), "AttentionPattern"),
    (lambda q, k, v: scaled_dot_product_attention(q.astype(np.float32), k, v), "k is float64"),
    (lambda q, k, v: scaled_dot_product_attention(q, k, v.astype(np.float32)), "v is float32"),
    (lambda q, k, v: attention(q, k, v.astype(np.float32)), "v is float32"),
    (lambda q, k, v: attention(q, k, v, np.ones((4, 5))), "mask must be an array of bool"),
    (lambda q, k, v: softmax(q, mask=np.where(q > 0, 0, -np.inf)), "mask must be an array of bool"),
    (lambda q, k, v: MultiHeadAttention(3, 1, np.random.default_rng(0), dtype=np.float64).forward(
        q[:, 0], rng=3), "rng must be")])
def test_arguments_of_a_wrong_type_are_refused(call, words, rng):
    with pytest.raises(TypeError) as caught:
        call(*qkv(rng))
    assert words in str(caught.value)


def test_scale_and_dropout_have_bounds(rng):
    q, k, v = (x.astype(np.float32) for x in qkv(rng))
    tiny, largest = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)
    for scale in (tiny, largest):
        with np.errstate(all="ignore"):
            scaled_dot_product_attention(q, k, v, scale=scale)
    for scale in (tiny / 2, largest * 2, 0.0):
        with pytest.raises(ValueError, match="scale="):
            scaled_dot_product_attention(q, k, v, scale=scale)
    for rate in (1.0, 1.5, -0.1):
        with pytest.raises(ValueError, match="scaled_dot_product_attention: dropout="):
            scaled_dot_product_attention(q, k, v, dropout=rate, seed=1)
    plain = scaled_dot_product_attention(q, k, v)[0]
    without_seed = scaled_dot_product_attention(q, k, v, dropout=0.5)[0]
    rate_0 = scaled_dot_product_attention(q, k, v, dropout=0.0, seed=1)[0]
    assert np.array_equal(without_seed, plain) and np.array_equal(rate_0, plain)


@pytest.mark.parametrize("positions", [None, ALiBi(2), RotaryPositions(4)])
def test_the_last_query_is_aligned_with_the_last_key(positions, rng):
    """Causal cross-attention from the last three positions is the end of self-attention."""
    layer = MultiHeadAttention(8, 2, rng, positions=positions, dtype=np.float64)
    x = rng.standard_normal((2, 7, 8))
    np.testing.assert_allclose(layer(x[:, -3:], context=x, pattern=CAUSAL),
                               layer(x, pattern=CAUSAL)[:, -3:], rtol=1e-12)
    last = layer.attention_weights(layer.forward(x[:, -3:], x, CAUSAL)[1])
    weights = layer.attention_weights(layer.forward(x, pattern=CAUSAL)[1])
    np.testing.assert_allclose(last, weights[:, :, -3:], rtol=1e-12)
