"""Attention with given queries, and self-attention with one head, as the notes print them."""

import numpy as np
import pytest

from numformer import backend
from numformer.functional import CAUSAL, EVERYWHERE, AttentionPattern, softmax
from numformer.layers import Attention, MultiHeadAttention, SelfAttention


@pytest.mark.parametrize("version", ["numpy", "numba"])
def test_the_five_lines_of_the_notes(version, rng):
    layer = Attention(4, 6, 3, rng, dtype=np.float64)
    Q, X = rng.standard_normal((2, 5, 4)), rng.standard_normal((2, 7, 6))
    K, V = X @ layer.key.weight.data, X @ layer.value.weight.data
    E = Q @ K.mT / np.sqrt(4)
    A, _ = softmax(E)
    with backend.using(version):
        y, saved = layer.forward(Q, X)
        np.testing.assert_allclose(y, A @ V, rtol=1e-12)
        np.testing.assert_allclose(layer.attention_weights(saved), A, rtol=1e-12)


def test_there_is_no_matrix_for_queries_and_none_for_the_output(rng):
    given, own = Attention(4, 6, 3, rng), SelfAttention(6, 3, rng, d_query=4)
    assert {name: x.data.shape for name, x in given.named_parameters()} == {
        "key.weight": (6, 4), "value.weight": (6, 3)}
    assert {name: x.data.shape for name, x in own.named_parameters()} == {
        "query.weight": (6, 4), "key.weight": (6, 4), "value.weight": (6, 3)}
    assert SelfAttention(6, 3, rng).query.weight.data.shape == (6, 3)


@pytest.mark.parametrize("pattern", [EVERYWHERE, CAUSAL, AttentionPattern(lengths=[4, 2])],
                         ids=["everywhere", "causal", "lengths"])
def test_self_attention_is_a_head_without_an_output_projection(pattern, rng):
    one = SelfAttention(6, 3, rng, d_query=4, dtype=np.float64)
    many = MultiHeadAttention(6, 1, rng, d_head=4, d_value=3, d_output=3, bias=False,
                              dtype=np.float64)
    many.load_state_dict({**one.state_dict(), "output.weight": np.eye(3)})
    x, dy = rng.standard_normal((2, 4, 6)), rng.standard_normal((2, 4, 3))
    (y, saved), (expected, saved_many) = (
        layer.forward(x, pattern=pattern) for layer in (one, many))
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(one.backward(dy, saved), many.backward(dy, saved_many), rtol=1e-11,
                               atol=1e-13)
    np.testing.assert_allclose(one.attention_weights(saved),
                               many.attention_weights(saved_many)[:, 0], rtol=1e-12)
    for name, parameter in one.named_parameters():
        np.testing.assert_allclose(parameter.grad, dict(many.named_parameters())[name].grad,
                                   rtol=1e-11, atol=1e-13)


def test_outputs_follow_the_queries_and_do_not_depend_on_the_order_of_the_data(rng):
    layer = Attention(4, 6, 3, rng, dtype=np.float64)
    q, x = rng.standard_normal((1, 5, 4)), rng.standard_normal((1, 7, 6))
    order = rng.permutation(7)
    np.testing.assert_allclose(layer(q, x[:, order]), layer(q, x), rtol=1e-12)
    np.testing.assert_allclose(layer(q[:, ::-1], x), layer(q, x)[:, ::-1], rtol=1e-12)
