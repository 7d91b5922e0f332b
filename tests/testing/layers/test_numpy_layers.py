"""Layers of somebody's own in NumPy, in the usual forms, right and wrong."""

import numpy as np
import pytest

from numformer import functional as F
from numformer.layers import (
    LSTM, Dropout, FeedForward, LayerNorm, Linear, MultiHeadAttention, RotaryPositions)
from numformer.testing import assert_layer_matches

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 4))


class Table:
    """A linear map with its weights and gradients in dicts, and its input kept on it."""

    def __init__(self, d_in, d_out):
        rng = np.random.default_rng(d_in)
        self.params = {"W": rng.standard_normal((d_in, d_out)), "b": np.zeros(d_out)}
        self.grads = {}

    def forward(self, x):
        self.x = x
        return x @ self.params["W"] + self.params["b"]

    def backward(self, dy):
        self.grads["W"] = np.tensordot(self.x, dy, axes=([0, 1], [0, 1]))
        self.grads["b"] = dy.sum(axis=(0, 1))
        return dy @ self.params["W"].T


class Relu:
    def __init__(self, slope=0.0):
        self.slope = slope

    def forward(self, x):
        self.x = x
        return np.where(x > 0, x, self.slope * x)

    def backward(self, dy):
        return np.where(self.x > 0, dy, self.slope * dy)


class MLP:
    def __init__(self, slope=0.0, factor=1.0):
        self.layers, self.factor = [Table(4, 6), Relu(slope), Table(6, 4)], factor

    def forward(self, x):
        for layer in self.layers:
            x = layer.forward(x)
        return self.factor * x

    def backward(self, dy):
        for layer in reversed(self.layers):
            dy = layer.backward(dy)
        return dy


class Norm:
    """y and saved come back, and gradients are added next to the arrays."""

    def __init__(self):
        self.gamma, self.beta = np.ones(4), np.zeros(4)
        self.dgamma, self.dbeta = np.zeros(4), np.zeros(4)

    def forward(self, x):
        return F.layer_norm(x, self.gamma, self.beta)

    def backward(self, dy, saved):
        dx, dgamma, dbeta = F.layer_norm_backward(dy, saved)
        self.dgamma += dgamma
        self.dbeta += dbeta
        return dx


def said(module, layer, inputs=(X,), **options):
    with pytest.raises(AssertionError) as raised:
        assert_layer_matches(module, layer, list(inputs), **options)
    return str(raised.value)


def test_right_layers_match_and_their_pairs_are_printed(capsys):
    assert_layer_matches(MLP(), FeedForward(4, 6, "relu", RNG), [X])
    assert "  layers.0.params.W = hidden.weight" in capsys.readouterr().out
    assert_layer_matches(Norm(), LayerNorm(4), [X])
    assert capsys.readouterr().out == (
        "Norm = LayerNorm of numformer, in float64:\n  gamma = weight\n  beta = bias\n")
    assert_layer_matches(LayerNorm(4), LayerNorm(4), [X])


def test_both_layers_stay_as_they_were():
    theirs, ours = Norm(), LayerNorm(4)
    assert_layer_matches(theirs, ours, [X])
    assert (theirs.gamma == 1).all() and (theirs.dgamma == 0).all()
    assert (ours.weight.data == 1).all() and ours.weight.data.dtype == np.float32
    assert "grad" not in vars(ours.weight)


def test_what_differs_is_placed_between_sublayers():
    text = said(MLP(slope=0.1), FeedForward(4, 6, "relu", RNG))
    assert text.startswith("MLP against FeedForward: y is wrong in ")
    assert ("The first sublayer that differs is layers.2 (ours: output): what it gets differs "
            "already, so the error is after layers.0, which is right, and before layers.2") in text
    text = said(MLP(factor=1.001), FeedForward(4, 6, "relu", RNG))
    assert "All sublayers that could be compared are right, to layers.2, the last" in text


def test_a_wrong_sublayer_is_named_with_its_weights():
    class Wrong(Table):
        def forward(self, x):
            return super().forward(x) + 0.01 * x[..., :4]
    wrong = MLP()
    wrong.layers[2] = Wrong(6, 4)
    assert ("The first sublayer that differs is layers.2 (ours: output), whose weights are "
            "layers.2.params.W = output.weight") in said(wrong, FeedForward(4, 6, "relu", RNG))


def test_a_wrong_gradient_is_named_with_its_pair_and_what_is_right():
    class Wrong(Norm):
        def backward(self, dy, saved):
            dx = super().backward(dy, saved)
            self.dbeta /= 6
            return dx
    text = said(Wrong(), LayerNorm(4))
    assert text.startswith("Wrong against LayerNorm: the gradient of beta is wrong in 4 of 4 "
                           "entries, first at (0,): module ")
    assert "The pair of weights: beta = bias." in text
    assert "Right: y, the gradient of the input, the gradient of gamma." in text


def test_every_gradient_is_compared():
    for k, what in enumerate(("the gradient of the input", "W", "b")):
        class Wrong(Table):
            def backward(self, dy):
                dx = super().backward(dy)
                changed = (dx, self.grads["W"], self.grads["b"])[k]
                changed[(0,) * changed.ndim] += 1e-6
                return dx
        text = said(Wrong(4, 5), Linear(4, 5, RNG))
        assert what in text.partition(" is wrong in ")[0] and "y" in text.partition("Right:")[2]


def test_a_bias_that_begins_at_zero_hides_nothing():
    class Forgets(Table):
        def forward(self, x):
            self.x = x
            return x @ self.params["W"]
    assert "y is wrong" in said(Forgets(4, 5), Linear(4, 5, RNG))


def test_float32_is_compared_as_such():
    class Single(Norm):
        def __init__(self, error=0.0):
            self.gamma, self.beta = np.ones(4, np.float32), np.zeros(4, np.float32)
            self.dgamma, self.dbeta = np.zeros(4, np.float32), np.zeros(4, np.float32)
            self.error = np.float32(error)

        def forward(self, x):
            assert x.dtype == np.float32
            y, saved = super().forward(x)
            return y + self.error, saved
    assert_layer_matches(Single(), LayerNorm(4), [X])
    assert "y is wrong" in said(Single(1e-3), LayerNorm(4))
    assert_layer_matches(Single(1e-3), LayerNorm(4), [X], rtol=0.2)


def test_gates_in_another_order_are_found_by_trying(capsys):
    class FirstForgets:
        def __init__(self):
            rng = np.random.default_rng(3)
            self.Wx, self.Wh = rng.standard_normal((3, 16)), rng.standard_normal((4, 16))
            self.b, self.inner = np.zeros(16), LSTM(3, 4, None, dtype=np.float64).allocate()

        def exchanged(self, x):
            i, f, *more = np.split(x, 4, axis=-1)
            return np.concatenate([f, i, *more], axis=-1)

        def forward(self, x):
            layer = LSTM(3, 4, None, dtype=np.float64).allocate()
            layer.zero_grad()
            layer.input.weight.data, layer.recurrent_weight.data = map(
                self.exchanged, (self.Wx, self.Wh))
            layer.input.bias.data = self.exchanged(self.b)
            y, saved = layer.forward(x)
            return y, (layer, saved)

        def backward(self, dy, saved):
            layer, saved = saved
            dx = layer.backward(dy, saved)
            self.dWx, self.dWh, self.db = map(self.exchanged, (
                layer.input.weight.grad, layer.recurrent_weight.grad, layer.input.bias.grad))
            return dx
    theirs = FirstForgets()
    del theirs.inner
    assert_layer_matches(theirs, LSTM(3, 4, RNG), [RNG.standard_normal((2, 5, 3))])
    assert "Wx, blocks from 4, 0, 8, 12 = input.weight" in capsys.readouterr().out


def test_a_random_layer_is_called_random():
    class Drops(Table):
        rng = np.random.default_rng(0)

        def forward(self, x):
            return super().forward(x) * (self.rng.random(5) > 0.5)
    assert "random: two calls" in said(Drops(4, 5), Linear(4, 5, RNG))


@pytest.mark.parametrize("module, layer, inputs, words", [
    (Table(4, 5), Table(4, 5), [X], "layer must be a Layer of numformer, but is Table"),
    (Table(4, 5), Linear(4, 5, RNG), X, "inputs must be a list of arrays"),
    (Table, Linear(4, 5, RNG), [X], "Table is a class; pass an object"),
    (3, Linear(4, 5, RNG), [X], "module must be a module of PyTorch"),
    (Table(4, 5), Linear(4, 5, RNG), [X[:0]], "must not be empty"),
    (Dropout(0.5), Linear(4, 5, RNG), [X], "find no partner")])
def test_bad_arguments_are_named(module, layer, inputs, words):
    with pytest.raises((TypeError, ValueError), match=words):
        assert_layer_matches(module, layer, inputs)


@pytest.mark.parametrize("options, words", [
    ({"names": ["W"]}, "names must be a dict"), ({"rtol": 0}, "rtol=0"),
    ({"seed": -1}, "seed=-1"), ({"call": 3}, "call must be a function")])
def test_bad_options_are_named(options, words):
    with pytest.raises((TypeError, ValueError), match=words):
        assert_layer_matches(Table(4, 5), Linear(4, 5, RNG), [X], **options)


def test_what_is_no_result_is_called_so():
    class Infinite(Table):
        def forward(self, x):
            return super().forward(x) / 0.0
    with np.errstate(all="ignore"):
        assert "relative error inf" in said(Infinite(4, 5), Linear(4, 5, RNG))

    class Nothing(Table):
        def forward(self, x):
            self.x = x
    with pytest.raises(ValueError, match="the module returned NoneType"):
        assert_layer_matches(Nothing(4, 5), Linear(4, 5, RNG), [X])

    class Writes(Table):
        def forward(self, x):
            x *= 2
            return super().forward(x) / 2
    assert "Writes: it writes into its input 0" in said(Writes(4, 5), Linear(4, 5, RNG))

    class NoGradient(Table):
        def backward(self, dy):
            super().backward(dy)
    assert "the gradient of the input is missing" in said(NoGradient(4, 5), Linear(4, 5, RNG))


def test_an_array_without_a_gradient_is_no_weight():
    class Mask(Table):
        def __init__(self, *sizes):
            super().__init__(*sizes)
            self.mask = np.ones((3, 3))
    assert_layer_matches(Mask(4, 5), Linear(4, 5, RNG), [X])

    class Forgets(Table):
        def backward(self, dy):
            dx = super().backward(dy)
            del self.grads["b"]
            return dx
    with pytest.raises(ValueError, match=r"Arrays without a gradient are no weights: params\.b"):
        assert_layer_matches(Forgets(4, 5), Linear(4, 5, RNG), [X])


@pytest.mark.parametrize("theirs, ours, options, words", [
    (FeedForward(4, 6, "gelu", RNG), FeedForward(4, 6, "relu", RNG), {},
     "in the module, activation is 'gelu', and 'relu' here"),
    (LayerNorm(4, epsilon=1e-3), LayerNorm(4), {}, "in the module, epsilon is 0.001, and 1e-05"),
    (MultiHeadAttention(4, 4, RNG), MultiHeadAttention(4, 2, RNG), {},
     "in the module, n_heads is 4, and 2 here"),
    (MultiHeadAttention(4, 2, RNG, scale=1.0), MultiHeadAttention(4, 2, RNG), {},
     "in the module, scale is 1, and None here"),
    (MultiHeadAttention(4, 2, RNG), MultiHeadAttention(4, 2, RNG), {"pattern": F.CAUSAL},
     "the module's attention is not causal"),
    (MultiHeadAttention(4, 2, RNG, positions=RotaryPositions(2, layout="half")),
     MultiHeadAttention(4, 2, RNG), {}, None),
    (MultiHeadAttention(4, 1, RNG, positions=RotaryPositions(4, base=1e6)),
     MultiHeadAttention(4, 1, RNG, positions=RotaryPositions(4)), {},
     "in the module, base is 1e+06, and 10000 here")])
def test_another_setting_is_the_likely_cause(theirs, ours, options, words):
    text = said(theirs, ours, options=options)
    assert f"Likely cause: {words}" in text if words else "Likely cause" not in text


def test_weights_in_lists_and_in_objects_with_a_gradient():
    class Weight:
        def __init__(self, data):
            self.data, self.grad = data, None

    class Lists:
        def __init__(self):
            first, last = Table(4, 6), Table(6, 4)
            self.W = [first.params["W"], last.params["W"]]
            self.b, self.c = Weight(np.zeros(6)), Weight(np.zeros(4))

        def forward(self, x):
            self.x, self.h = x, np.maximum(x @ self.W[0] + self.b.data, 0)
            return self.h @ self.W[1] + self.c.data

        def backward(self, dy):
            dh = (dy @ self.W[1].T) * (self.h > 0)
            over = ([0, 1], [0, 1])
            self.dW = [np.tensordot(self.x, dh, over), np.tensordot(self.h, dy, over)]
            self.b.grad, self.c.grad = dh.sum(axis=(0, 1)), dy.sum(axis=(0, 1))
            return dh @ self.W[0].T
    assert_layer_matches(Lists(), FeedForward(4, 6, "relu", RNG), [X])

    class Wrong(Lists):
        def backward(self, dy):
            dx = super().backward(dy)
            self.dW[1] *= 2
            return dx
    assert "the gradient of W.1 is wrong" in said(Wrong(), FeedForward(4, 6, "relu", RNG))
