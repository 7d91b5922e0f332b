"""Pooling: one vector for a whole sequence; and the pooler of BERT."""

import numpy as np

from numformer.backend import relu, relu_backward
from numformer.checks import check_array, check_choice
from numformer.description import Description, to
from numformer.functional.pooling import (
    max_pooling, max_pooling_backward, mean_pooling, mean_pooling_backward)
from numformer.layers.linear import Linear
from numformer.parameter import Layer

POOLINGS = {"mean": (mean_pooling, mean_pooling_backward),
            "max": (max_pooling, max_pooling_backward)}


class Pooling(Layer):
    r"""One vector for a sequence, (B, T, C) to (B, C): the class token's, the mean, or the maximum.

    .. math::

        y = x_0 \quad\text{or}\quad y = \langle x_t \rangle_t \quad\text{or}\quad
        y_c = \max_t x_{tc}

    The class token is the first.

    Parameters
    ----------
    kind : "class", "mean" or "max"

    Raises
    ------
    ValueError, TypeError
        If the kind is unknown, `x` does not have three axes, or a sequence has no real position.

    References
    ----------
    Devlin et al. (2019), "BERT", section 3, for the class token; Reimers and Gurevych (2019),
    "Sentence-BERT", section 3, for all three.

    Examples
    --------
    >>> x = np.array([[[1.0, 4.0], [3.0, 0.0]]])
    >>> [Pooling(kind)(x).tolist() for kind in ("class", "mean", "max")]
    [[[1.0, 4.0]], [[2.0, 2.0]], [[3.0, 4.0]]]
    """

    def __init__(self, kind):
        check_choice("Pooling", "kind", kind, ["class", *POOLINGS])
        self.kind = kind

    def forward(self, x, mask=None):
        """Pool.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
        mask : ndarray of bool, shape (B, T), optional
            True for real positions; mean and maximum ignore the others. The class token is the
            first in any case.

        Returns
        -------
        y : ndarray, shape (B, C)
        saved : tuple
        """
        if self.kind != "class":
            return POOLINGS[self.kind][0](x, mask)
        if check_array("Pooling", "x", x, "(B, T, C)")["T"] == 0:
            raise ValueError(f"Pooling: x has shape {x.shape} and so no class token; give at least "
                             "one position.")
        return x[:, 0].copy(), x.shape

    def backward(self, dy, saved):
        if self.kind != "class":
            return POOLINGS[self.kind][1](dy, saved)

        # y = x[:, 0]
        dx = np.zeros(saved, dy.dtype)
        dx[:, 0] = dy
        return dx

    def describe(self):
        gradient = (r"mean: $dx_t = dy / T$", r"class: $dx_0 = dy$", r"max: $dx_{t^*} = dy$")
        if self.kind == "class":
            return Description("Class token's vector", gradient=gradient)
        return Description(f"{self.kind.title()} pooling", "over all positions", gradient)


def _tanh(h):
    y = np.tanh(h)
    return y, y


def _tanh_backward(dy, y):
    return dy * (1 - y * y)


POOLER_ACTIVATIONS = {"tanh": (_tanh, _tanh_backward), "relu": (relu, relu_backward)}


class ClassPooler(Layer):
    r"""BERT's vector of a sequence, (B, T, C) to (B, C): the class token's, mapped.

    .. math:: y = f(h), \qquad h = x_0 W + b

    .. math:: \bar{h} = f'(h)\,\bar{y}, \qquad \bar{x}_0 = \bar{h}\,W^\top

    f is tanh, which bounds it, or in DistilBERT max(0, h).

    Parameters
    ----------
    d_model : int
        C.
    rng : numpy.random.Generator or None
    std : float
        Standard deviation of the initial weight.
    dtype : float32 or float64
    activation : "tanh" or "relu"
        f.

    Raises
    ------
    ValueError, TypeError
        If the activation is unknown, or `x` has not three axes, the last of them C, or has no
        position.

    References
    ----------
    Devlin et al. (2019), "BERT", section 3, where it is the vector C; the map is in the published
    code alone. Sanh et al. (2019), "DistilBERT", whose published code has the other activation.

    Examples
    --------
    >>> ClassPooler(4, np.random.default_rng(0))(np.ones((2, 3, 4), np.float32)).shape
    (2, 4)
    """

    def __init__(self, d_model, rng, std=0.02, dtype=np.float32, activation="tanh"):
        check_choice("ClassPooler", "activation", activation, [*POOLER_ACTIVATIONS])
        self.activation = activation
        self.pooling = Pooling("class")
        self.linear = Linear(d_model, d_model, rng, std=std, dtype=dtype)

    def forward(self, x, mask=None):
        """The vector of each sequence; whatever the `mask`, the class token is the first."""
        first, saved_pooling = self.pooling.forward(x)                # (B, C)
        h, saved_linear = self.linear.forward(first)
        y, saved_activation = POOLER_ACTIVATIONS[self.activation][0](h)

        saved = (saved_pooling, saved_linear, saved_activation)
        return y, saved

    def backward(self, dy, saved):
        saved_pooling, saved_linear, saved_activation = saved

        # y = f(h)
        dh = POOLER_ACTIVATIONS[self.activation][1](dy, saved_activation)

        # h = linear(x[:, 0])
        return self.pooling.backward(self.linear.backward(dh, saved_linear), saved_pooling)

    def describe(self):
        slope = r"dz = dy\,(1 - y^2)" if self.activation == "tanh" else r"dz = dy\,[y > 0]"
        return Description("Class pooler", to(self.linear.weight.data, self.activation),
                           (slope, r"dx_0 = dz\,W^\top", r"dW = x_0^\top dz"))
