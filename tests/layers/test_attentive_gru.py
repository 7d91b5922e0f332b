"""The recurrent layer with attention: its context, its query, and initial weights."""

import numpy as np
import pytest

from numformer.layers import GRU, AttentiveGRU


def test_an_attentive_gru_with_a_zero_context_is_a_gru(rng):
    """Where no context is real, c is 0, and what is left is the plain layer with the same weights.
    """
    layer, plain = AttentiveGRU(3, 4, 5, rng, dtype=np.float64), GRU(3, 4, rng, dtype=np.float64)
    state = layer.state_dict()
    plain.load_state_dict({name: state[name] for name in plain.state_dict()})
    x, first = rng.standard_normal((2, 6, 3)), rng.standard_normal((2, 4))
    y = layer(x, first, rng.standard_normal((2, 7, 5)), lengths=[0, 0])
    np.testing.assert_allclose(y[..., :4], plain(x, first), rtol=1e-13)
    assert (y[..., 4:] == 0).all()


def test_the_context_is_the_weighted_mean_of_the_annotations(rng):
    layer = AttentiveGRU(3, 4, 5, rng, "general", np.float64)
    x, first, context = map(rng.standard_normal, ((2, 6, 3), (2, 4), (2, 7, 5)))
    weights = layer.attention_weights(layer.forward(x, first, context, [7, 3])[1])
    np.testing.assert_allclose(layer(x, first, context, [7, 3])[..., 4:], weights @ context,
                               rtol=1e-12)
    np.testing.assert_allclose(weights.sum(axis=2), 1, rtol=1e-12)
    assert weights.shape == (2, 6, 7) and (weights[1, :, 3:] == 0).all() and (weights[0] > 0).all()


def test_the_query_is_the_previous_state(rng):
    """The first weights depend on the first state and not on the first input; the second ones on
    both.
    """
    layer = AttentiveGRU(3, 4, 5, rng, dtype=np.float64)
    x, first, context = map(rng.standard_normal, ((1, 2, 3), (1, 4), (1, 7, 5)))
    weights, other = (layer.attention_weights(layer.forward(each, first, context)[1])
                      for each in (x, x + 1))
    assert (np.array_equal(weights[:, 0], other[:, 0])
            and not np.array_equal(weights[:, 1], other[:, 1]))
    one = layer.attention.attention_weights(layer.attention.forward(first[:, None], context)[1])
    np.testing.assert_allclose(weights[:, :1], one, rtol=1e-12)


def test_initial_weights_are_those_of_one_input_of_both_widths(rng):
    layer = AttentiveGRU(100, 100, 300, rng)
    assert all(abs(weight.data.std() * 20 - 1) < 0.03
               for weight in (layer.input.weight, layer.context_weight))
    assert (layer.attention.score == "additive" and layer.width == 100
            and (layer.recurrent_bias.data == 0).all())


@pytest.mark.parametrize("call_, error, words", [
    (lambda rng: AttentiveGRU(0, 1, 1, rng), ValueError, "d_in=0"),
    (lambda rng: AttentiveGRU(1, 0, 1, rng), ValueError, "d_out=0"),
    (lambda rng: AttentiveGRU(1, 1, 0, rng), ValueError, "d_context=0"),
    (lambda rng: AttentiveGRU(3, 4, 5, rng, "dot"), ValueError, "they are 4 and 5"),
    (lambda rng: AttentiveGRU(3, 4, 5, rng, "loud"), ValueError, "choose from 'additive'"),
    (lambda rng: AttentiveGRU(3, 4, 5, rng).step(
        np.zeros((1, 2, 3), np.float32), np.zeros((1, 4), np.float32), ()), ValueError,
     "one position"),
    (lambda rng: AttentiveGRU(3, 4, 5, rng).prepare(np.zeros((2, 3, 5), np.float32), [3, 4]),
     ValueError, "lengths=.3, 4."),
    (lambda rng: AttentiveGRU(3, 4, 5, rng).prepare(np.zeros((2, 3, 5), np.float32), [3]),
     ValueError, "B=2 whole"),
    (lambda rng: AttentiveGRU(3, 4, 5, rng).prepare(np.zeros((2, 3, 5), np.float32), [3, -1]),
     ValueError, "in 0 .. S=3"),
    (lambda rng: AttentiveGRU(3, 4, 5, rng).prepare(np.zeros((2, 3, 5), np.float32), [3.0, 1.0]),
     ValueError, "whole numbers"),
])
def test_inputs_that_do_not_fit_are_refused(call_, error, words, rng):
    with pytest.raises(error, match=words):
        call_(rng)
