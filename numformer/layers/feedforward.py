"""Feed-forward layers: every position alone, through a wide hidden layer and back."""

import numpy as np

from numformer.backend import (
    ACTIVATIONS, add, feed_forward, feed_forward_backward_accumulate, gated_feed_forward,
    gated_feed_forward_backward_accumulate, gated_linear_unit, gated_linear_unit_backward)
from numformer.checks import check_choice
from numformer.description import Description, Row, to
from numformer.functional.activations.table import GATED, spelled
from numformer.layers.linear import Linear, are_plain
from numformer.parameter import Layer

# the gradients of both feed-forwards and of their parts, for diagrams
FEED_FORWARD = (r"da = dy\,W_2^\top", r"dh = da\,f'(h)", r"dx = dh\,W_1^\top",
                r"dW_1 = x^\top dh", r"dW_2 = a^\top dy")
GATED_GRADIENT = (r"da = dy\,W_3^\top", r"dg = da\,h\,f'(g)", r"dh = da\,f(g)",
                  r"dx = dg\,W_1^\top + dh\,W_2^\top")
ACTIVATION = (r"dx = dy\,f'(x)",)
PRODUCT = r"da = dy\,b", r"db = dy\,a"
GATED_UNITS = {"relu": "ReGLU"} | {f: spelled(name) for name, f in GATED.items()}


class FeedForward(Layer):
    r"""Two linear maps with a nonlinearity between them, (..., C) to (..., C).

    .. math:: y = f(x W_1 + b_1) W_2 + b_2

    Parameters
    ----------
    d_model, d_hidden : int
        C and F; F is 4 C in most papers.
    activation : str, a name in `ACTIVATIONS`
        f.
    rng : numpy.random.Generator or None
    bias : bool
    std, output_std : float, optional
        Of the initial weights of the two maps; 1 / sqrt(width of their input) unless given.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If the activation is unknown, or a width or `x` does not fit.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", eq. 2.

    Examples
    --------
    >>> FeedForward(4, 16, "gelu", np.random.default_rng(0))
    FeedForward(hidden=Linear, output=Linear, activation='gelu')
    """

    def __init__(self, d_model, d_hidden, activation, rng, bias=True, std=None, output_std=None,
                 dtype=np.float32):
        check_choice("FeedForward", "activation", activation, ACTIVATIONS)
        self.hidden = Linear(d_model, d_hidden, rng, bias, std, dtype)
        self.output = Linear(d_hidden, d_model, rng, bias, output_std, dtype)
        self.activation = activation

    def forward(self, x):
        if are_plain(self.hidden, self.output):               # all of what follows in one call
            y, saved = feed_forward(
                x, *self.hidden.arrays, *self.output.arrays, self.activation)
            return y, (True, saved)
        f, _ = ACTIVATIONS[self.activation]
        h, saved_hidden = self.hidden.forward(x)                      # (..., F)
        a, saved_activation = f(h)
        y, saved_output = self.output.forward(a)                      # (..., C)

        saved = (False, (saved_hidden, saved_activation, saved_output))
        return y, saved

    def backward(self, dy, saved):
        at_once, saved = saved
        if at_once:
            return feed_forward_backward_accumulate(
                dy, saved, *self.hidden.gradients, *self.output.gradients)
        saved_hidden, saved_activation, saved_output = saved
        _, f_backward = ACTIVATIONS[self.activation]

        # y = output(f(hidden(x)))
        dh = f_backward(self.output.backward(dy, saved_output), saved_activation)
        return self.hidden.backward(dh, saved_hidden)

    def hidden_units(self, x):
        """The hidden layer (..., F) of x, after its nonlinearity."""
        f, _ = ACTIVATIONS[self.activation]
        return f(self.hidden(x))[0]

    def describe(self):
        return Description("Feed-forward", to(self.hidden.weight.data, spelled(self.activation)),
                           FEED_FORWARD)

    def describe_parts(self, reader, box):
        f, _ = ACTIVATIONS[self.activation]
        hidden = *box.shape[:-1], reader.letter("F", self.hidden.weight.data.shape[1])
        return (reader.box(hidden, self.hidden),
                reader.function(hidden, spelled(self.activation), f, gradient=ACTIVATION),
                reader.box(box.shape, self.output))


class GatedFeedForward(Layer):
    r"""A feed-forward, (..., C) to (..., C), whose hidden layer is multiplied by a gate.

    .. math:: y = \left( f(x W_1 + b_1) \odot (x W_2 + b_2) \right) W_3 + b_3

    With SiLU for f this is SwiGLU, with GELU GEGLU. At width F = 8/3 C it has as many parameters as
    the plain feed-forward at 4 C.

    Parameters
    ----------
    d_model, d_hidden : int
        C and F.
    activation : str, a name in `ACTIVATIONS`
        f.
    rng, bias, std, output_std, dtype
        As in `FeedForward`.

    Raises
    ------
    ValueError, TypeError
        If the activation is unknown, or a width or `x` does not fit.

    References
    ----------
    Shazeer (2020), "GLU Variants Improve Transformer", eq. 6.

    Examples
    --------
    >>> GatedFeedForward(4, 11, "silu", np.random.default_rng(0), bias=False)
    GatedFeedForward(gate=Linear, hidden=Linear, output=Linear, activation='silu')
    """

    def __init__(self, d_model, d_hidden, activation, rng, bias=True, std=None, output_std=None,
                 dtype=np.float32):
        check_choice("GatedFeedForward", "activation", activation, ACTIVATIONS)
        self.gate = Linear(d_model, d_hidden, rng, bias, std, dtype)
        self.hidden = Linear(d_model, d_hidden, rng, bias, std, dtype)
        self.output = Linear(d_hidden, d_model, rng, bias, output_std, dtype)
        self.activation = activation

    def forward(self, x):
        if are_plain(self.gate, self.hidden, self.output):    # all of what follows in one call
            y, saved = gated_feed_forward(
                x, *self.gate.arrays, *self.hidden.arrays, *self.output.arrays, self.activation)
            return y, (True, saved)
        g, saved_gate = self.gate.forward(x)                          # (..., F)
        h, saved_hidden = self.hidden.forward(x)                      # (..., F)
        a, saved_product = gated_linear_unit(g, h, self.activation)
        y, saved_output = self.output.forward(a)                      # (..., C)

        saved = (False, (saved_gate, saved_hidden, saved_product, saved_output))
        return y, saved

    def backward(self, dy, saved):
        at_once, saved = saved
        if at_once:
            return gated_feed_forward_backward_accumulate(
                dy, saved, *self.gate.gradients, *self.hidden.gradients, *self.output.gradients)
        saved_gate, saved_hidden, saved_product, saved_output = saved

        # y = output(f(g) * h)
        da = self.output.backward(dy, saved_output)
        dg, dh = gated_linear_unit_backward(da, saved_product)

        # g = gate(x);  h = hidden(x)
        return add(self.gate.backward(dg, saved_gate), self.hidden.backward(dh, saved_hidden))

    def hidden_units(self, x):
        """The hidden layer (..., F) of x, multiplied by its gates."""
        return gated_linear_unit(self.gate(x), self.hidden(x), self.activation)[0]

    def describe(self):
        return Description("Feed-forward", to(self.hidden.weight.data,
                                              GATED_UNITS.get(self.activation, "gated")),
                           GATED_GRADIENT)

    def describe_parts(self, reader, box):
        f, _ = ACTIVATIONS[self.activation]
        hidden = *box.shape[:-1], reader.letter("F", self.hidden.weight.data.shape[1])
        gate = (reader.box(hidden, self.gate, name="Gate"),
                reader.function(hidden, spelled(self.activation), f, gradient=ACTIVATION))
        return gated_parts(self, reader, box, hidden, gate)


def gated_parts(layer, reader, box, hidden, gate):
    """The parts of a gated feed-forward, whose `gate` ends with an activation."""
    return (Row((gate, (reader.box(hidden, layer.hidden),))),
            reader.function(hidden, "Product", type(layer), "elementwise", PRODUCT),
            reader.box(box.shape, layer.output))


def SwiGLU(d_model, d_hidden, rng, **options):
    """`GatedFeedForward` with SiLU, as in LLaMA.

    The options are `bias`, `std`, `output_std` and `dtype`.

    References
    ----------
    Shazeer (2020), "GLU Variants Improve Transformer", eq. 6; Touvron et al. (2023), "LLaMA",
    section 2.2.

    Examples
    --------
    >>> SwiGLU(4, 11, np.random.default_rng(0))(np.ones((2, 4), np.float32)).shape
    (2, 4)
    """
    return GatedFeedForward(d_model, d_hidden, "silu", rng, **options)


def GEGLU(d_model, d_hidden, rng, **options):
    """`GatedFeedForward` with GELU.

    The options are `bias`, `std`, `output_std` and `dtype`.

    References
    ----------
    Shazeer (2020), "GLU Variants Improve Transformer", eq. 6.

    Examples
    --------
    >>> GEGLU(4, 11, np.random.default_rng(0))(np.ones((2, 4), np.float32)).shape
    (2, 4)
    """
    return GatedFeedForward(d_model, d_hidden, "gelu", rng, **options)
