"""Gradients of parameters that are replaced, doubled, lost, cleared, or of another kind."""

import numpy as np

from numformer.parameter import Layer, Parameter

rng = np.random.default_rng(12)
X = rng.standard_normal((3, 4))


class Linear(Layer):
    """y = x W + b; each bug is another way to add the gradients."""

    def __init__(self, add):
        self.weight = Parameter(rng.standard_normal((4, 2)))
        self.bias = Parameter(rng.standard_normal(2))
        self.add = add

    def forward(self, x):
        return x @ self.weight.data + self.bias.data, (x,)

    def backward(self, dy, saved):
        (x,) = saved
        self.add(self, x.T @ dy, dy.sum(axis=0))
        return dy @ self.weight.data.T


class Tied(Linear):
    """tanh(x W) W', with the gradient of one of the two uses."""

    def forward(self, x):
        h = np.tanh(x @ self.weight.data)
        return h @ self.weight.data.T, (x, h)

    def backward(self, dy, saved):
        x, h = saved
        dz = (dy @ self.weight.data) * (1 - h * h)
        self.weight.grad += dy.T @ h
        return dz @ self.weight.data.T


class PlainOverwrites:
    """A plain class whose dw is made anew by every backward."""

    def __init__(self):
        self.w, self.dw = rng.standard_normal(4), np.zeros(4)

    def forward(self, x):
        return x * self.w, x

    def backward(self, dy, x):
        self.dw = (dy * x).sum(axis=0)
        return dy * self.w


class PlainWrong(PlainOverwrites):
    def backward(self, dy, x):
        self.dw += (dy * x).mean(axis=0)
        return dy * self.w


def overwrites(layer, dweight, dbias):
    layer.weight.grad = dweight
    layer.bias.grad += dbias


def overwrites_in_place(layer, dweight, dbias):
    layer.weight.grad[...] = dweight
    layer.bias.grad += dbias


def replaces(layer, dweight, dbias):
    layer.weight.grad = layer.weight.grad + dweight
    layer.bias.grad += dbias


def doubles(layer, dweight, dbias):
    layer.weight.grad += dweight
    layer.bias.grad += dbias
    layer.bias.grad += dbias


def forgets(layer, dweight, dbias):
    layer.weight.grad += dweight


def subtracts(layer, dweight, dbias):
    layer.weight.grad += dweight
    layer.bias.grad -= dbias


def clears(layer, dweight, dbias):
    layer.zero_grad()
    layer.weight.grad += dweight
    layer.bias.grad += dbias


def adds_to_a_copy(layer, dweight, dbias):
    layer.weight.grad += dweight
    layer.bias.grad.flatten()[...] += dbias


def single_precision(layer, dweight, dbias):
    layer.weight.grad = layer.weight.grad.astype(np.float32) + dweight.astype(np.float32)
    layer.bias.grad += dbias


def keeps_the_batch(layer, dweight, dbias):
    layer.weight.grad += dweight
    layer.bias.grad = np.broadcast_to(dbias, (3, 2)).copy()


def none(layer, dweight, dbias):
    layer.weight.grad += dweight
    layer.bias.grad = [0.0, 0.0]


BUGS = [
    ("grad =", Linear(overwrites), [X], {}, "the gradient of weight does not accumulate"),
    ("grad[...] =", Linear(overwrites_in_place), [X], {},
     "the gradient of weight does not accumulate"),
    ("grad = grad + g", Linear(replaces), [X], {}, "replaces the array grad of weight"),
    ("added twice", Linear(doubles), [X], {}, "! bias"),
    ("not added", Linear(forgets), [X], {}, "! bias"),
    ("subtracted", Linear(subtracts), [X], {}, "! bias"),
    ("cleared first", Linear(clears), [X], {}, "does not accumulate"),
    ("added to a copy", Linear(adds_to_a_copy), [X], {}, "! bias"),
    ("in single precision", Linear(single_precision), [X], {},
     "the gradient of weight must be an array of shape (4, 2) and dtype float64"),
    ("with the batch", Linear(keeps_the_batch), [X], {},
     "the gradient of bias must be an array of shape (2,)"),
    ("a list", Linear(none), [X], {}, "the gradient of bias must be an array"),
    ("one of two uses", Tied(None), [X], {}, "! weight"),
    ("dw overwritten in a plain class", PlainOverwrites(), [X], {},
     "the gradient of w does not accumulate"),
    ("dw wrong in a plain class", PlainWrong(), [X], {}, "! w"),
]
