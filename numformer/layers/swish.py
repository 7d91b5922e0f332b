"""Swish with a trained steepness for each unit, and the feed-forwards with it."""

import numpy as np

from numformer.checks import check_array, check_whole
from numformer.description import Description, to
from numformer.functional import sigmoid, sigmoid_backward
from numformer.layers.feedforward import FEED_FORWARD, GATED_GRADIENT, gated_parts
from numformer.layers.linear import Linear
from numformer.parameter import Layer, constant


class Swish(Layer):
    r"""`swish` whose beta is trained, one for each of the last axis: (..., F) to (..., F).

    .. math::

        y = x\, g, \quad g = \sigma(u), \quad u = \beta x, \qquad
        \bar{u} = \bar{y}\, x\, g (1 - g), \quad \bar{x} = \bar{y}\, g + \bar{u}\, \beta, \quad
        \bar{\beta} = \sum_n \bar{u}_n x_n

    At beta = 0 it is linear, and for large beta it approaches ReLU; the training finds how steep
    each unit should be. It begins at 1, as SiLU.

    Parameters
    ----------
    width : int
        F.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If the width is not a whole number above 0, or `x` does not end in F.

    References
    ----------
    Ramachandran, Zoph, Le (2017), "Searching for Activation Functions", section 4.

    Examples
    --------
    >>> Swish(3, np.float64)(np.array([-1.0, 0.0, 1.0])).round(4)
    array([-0.2689,  0.    ,  0.7311])
    """

    def __init__(self, width, dtype=np.float32):
        check_whole("Swish", "width", width)
        self.beta = constant(1, (width,), dtype)

    def forward(self, x):
        beta = self.beta.data
        check_array("Swish", "x", x, "(..., F)", beta.dtype, F=len(beta))
        g, saved_gate = sigmoid(x * beta)
        y = x * g

        saved = (x, beta, g, saved_gate)
        return y, saved

    def backward(self, dy, saved):
        x, beta, g, saved_gate = saved

        # y = x * g
        dg = dy * x

        # g = sigmoid(x * beta)
        du = sigmoid_backward(dg, saved_gate)
        self.beta.grad += (du * x).sum(axis=tuple(range(x.ndim - 1)))
        return dy * g + du * beta

    def describe(self):
        return Description("Swish", "trained slope",
                           (r"dx = dy\,f'(x)", r"d\beta = \Sigma\,dy\,\partial f / \partial\beta"))


class SwishFeedForward(Layer):
    r"""`FeedForward` whose nonlinearity is trained, too: (..., C) to (..., C).

    .. math:: y = \mathrm{Swish}_\beta(x W_1 + b_1)\, W_2 + b_2

    Parameters
    ----------
    d_model, d_hidden : int
        C and F.
    rng, bias, std, output_std, dtype
        As in `FeedForward`.

    Raises
    ------
    ValueError, TypeError
        If a width or `x` does not fit.

    References
    ----------
    Shazeer (2020), "GLU Variants Improve Transformer", eq. 3; there beta is 1.

    Examples
    --------
    >>> SwishFeedForward(4, 16, np.random.default_rng(0))
    SwishFeedForward(hidden=Linear, swish=Swish, output=Linear)
    """

    def __init__(self, d_model, d_hidden, rng, bias=True, std=None, output_std=None,
                 dtype=np.float32):
        self.hidden = Linear(d_model, d_hidden, rng, bias, std, dtype)
        self.swish = Swish(d_hidden, dtype)
        self.output = Linear(d_hidden, d_model, rng, bias, output_std, dtype)

    def forward(self, x):
        h, saved_hidden = self.hidden.forward(x)                      # (..., F)
        a, saved_swish = self.swish.forward(h)
        y, saved_output = self.output.forward(a)                      # (..., C)

        saved = (saved_hidden, saved_swish, saved_output)
        return y, saved

    def backward(self, dy, saved):
        saved_hidden, saved_swish, saved_output = saved

        # y = output(swish(hidden(x)))
        da = self.output.backward(dy, saved_output)
        return self.hidden.backward(self.swish.backward(da, saved_swish), saved_hidden)

    def hidden_units(self, x):
        """The hidden layer (..., F) of x, after its nonlinearity."""
        return self.swish(self.hidden(x))

    def describe(self):
        return Description("Feed-forward", to(self.hidden.weight.data, "trained Swish"),
                           (*FEED_FORWARD, r"d\beta = \Sigma\,da\,\partial f / \partial\beta"))

    def describe_parts(self, reader, box):
        hidden = *box.shape[:-1], reader.letter("F", self.hidden.weight.data.shape[1])
        return (*reader.boxes(hidden, self.hidden, self.swish), reader.box(box.shape, self.output))


class GatedSwishFeedForward(Layer):
    r"""`GatedFeedForward` whose gate has a trained nonlinearity: (..., C) to (..., C).

    .. math:: y = \left( \mathrm{Swish}_\beta(x W_1 + b_1) \odot (x W_2 + b_2) \right) W_3 + b_3

    At beta = 1, where it begins, this is SwiGLU.

    Parameters
    ----------
    d_model, d_hidden : int
        C and F.
    rng, bias, std, output_std, dtype
        As in `FeedForward`.

    Raises
    ------
    ValueError, TypeError
        If a width or `x` does not fit.

    References
    ----------
    Shazeer (2020), "GLU Variants Improve Transformer", eq. 5, whose Swish has a beta, and eq. 6,
    where it is 1.

    Examples
    --------
    >>> GatedSwishFeedForward(4, 11, np.random.default_rng(0), bias=False)
    GatedSwishFeedForward(gate=Linear, swish=Swish, hidden=Linear, output=Linear)
    """

    def __init__(self, d_model, d_hidden, rng, bias=True, std=None, output_std=None,
                 dtype=np.float32):
        self.gate = Linear(d_model, d_hidden, rng, bias, std, dtype)
        self.swish = Swish(d_hidden, dtype)
        self.hidden = Linear(d_model, d_hidden, rng, bias, std, dtype)
        self.output = Linear(d_hidden, d_model, rng, bias, output_std, dtype)

    def forward(self, x):
        g, saved_gate = self.gate.forward(x)                          # (..., F)
        a, saved_swish = self.swish.forward(g)
        h, saved_hidden = self.hidden.forward(x)                      # (..., F)
        y, saved_output = self.output.forward(a * h)                  # (..., C)

        saved = (saved_gate, saved_swish, saved_hidden, saved_output, a, h)
        return y, saved

    def backward(self, dy, saved):
        saved_gate, saved_swish, saved_hidden, saved_output, a, h = saved

        # y = output(a * h)
        dproduct = self.output.backward(dy, saved_output)
        da, dh = dproduct * h, dproduct * a

        # a = swish(gate(x));  h = hidden(x)
        dg = self.swish.backward(da, saved_swish)
        return self.gate.backward(dg, saved_gate) + self.hidden.backward(dh, saved_hidden)

    def hidden_units(self, x):
        """The hidden layer (..., F) of x, multiplied by its gates."""
        return self.swish(self.gate(x)) * self.hidden(x)

    def describe(self):
        return Description("Feed-forward", to(self.hidden.weight.data, "gated by trained Swish"),
                           (*GATED_GRADIENT, r"d\beta = \Sigma\,da\,h\,\partial f / \partial\beta"))

    def describe_parts(self, reader, box):
        hidden = *box.shape[:-1], reader.letter("F", self.hidden.weight.data.shape[1])
        gate = reader.box(hidden, self.gate, name="Gate"), reader.box(hidden, self.swish)
        return gated_parts(self, reader, box, hidden, gate)
