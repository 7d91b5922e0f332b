"""Linear, and LMHead: the head of a language model, tied to its embedding or not, and its loss."""

import numpy as np

from numformer.backend import (
    cross_entropy, cross_entropy_backward, linear, linear_backward_accumulate, linear_cross_entropy,
    linear_cross_entropy_backward_accumulate)
from numformer.checks import check_whole
from numformer.description import Description, by, to
from numformer.parameter import Layer, Parameter, constant, normal


class Linear(Layer):
    """A learned affine map of every vector, (..., C) to (..., F): `linear`.

    Parameters
    ----------
    d_in, d_out : int
        C and F.
    rng : numpy.random.Generator or None
        Samples the weight; None: only shapes.
    bias : bool
    std : float, optional
        Of the initial weight; 1 / sqrt(d_in) unless given, which keeps the scale of coordinates.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If a width is not a whole number above 0, or `x` does not end in C.

    Examples
    --------
    >>> layer = Linear(4, 3, np.random.default_rng(0))
    >>> layer
    Linear(weight=(4, 3), bias=(3,))
    >>> layer(np.ones((2, 4), np.float32)).shape
    (2, 3)
    """

    def __init__(self, d_in, d_out, rng, bias=True, std=None, dtype=np.float32):
        check_whole("Linear", "d_in", d_in)
        check_whole("Linear", "d_out", d_out)
        self.weight = normal(rng, (d_in, d_out), d_in ** -0.5 if std is None else std, dtype)
        self.bias = constant(0, (d_out,), dtype) if bias else None

    def forward(self, x):
        return linear(x, *self.arrays)

    def backward(self, dy, saved):
        return linear_backward_accumulate(dy, saved, *self.gradients)

    @property
    def arrays(self):
        """(weight, bias), for functions that contain this map; None where there is no bias."""
        return self.weight.data, None if self.bias is None else self.bias.data

    @property
    def gradients(self):
        """The gradients of `arrays`; None where there is no bias, or what is frozen."""
        return _gradient(self.weight), _gradient(self.bias)

    def describe(self):
        gradient = r"dx = dy\,W^\top", r"dW = x^\top dy", r"db = \Sigma\,dy"
        return Description("Linear", to(self.weight.data), gradient[:2 + (self.bias is not None)],
                           weights=self.weight.data.size)


def are_plain(*parts):
    """Whether a function that contains these maps may read their arrays, and run in their place.

    That goes by class: a subclass of `Linear` may compute anything, so it has to run itself. So
    does a map with a frozen weight, whose gradient would cost the function a product.

    Examples
    --------
    >>> class Doubled(Linear):
    ...     def forward(self, x):
    ...         y, saved = super().forward(x)
    ...         return 2 * y, saved
    >>> are_plain(Linear(2, 3, None), Linear(3, 2, None)), are_plain(Doubled(2, 3, None))
    (True, False)
    """
    return all(type(part) is Linear and part.weight.trained for part in parts)


def _gradient(parameter):
    """The gradient that a backward adds to; None if there is none to compute."""
    return parameter.grad if parameter is not None and parameter.trained else None


class LMHead(Layer):
    r"""Logits over the vocabulary, (..., C) to (..., V): products with the vector of every token.

    .. math:: y = x W^\top + b, \qquad
              \bar{x} = \bar{y} W, \quad \bar{W} = \sum_n \bar{y}_n x_n^\top, \quad
              \bar{b} = \sum_n \bar{y}_n

    Parameters
    ----------
    weight : Parameter, shape (V, C)
        An `Embedding`'s weight, to tie the two, or one of its own.
    bias : Parameter, shape (V,), optional
        b, how frequent each token is before anything is read; 0 without one.

    Raises
    ------
    ValueError, TypeError
        If `weight` is not a matrix Parameter, `bias` not one number for each token, or `x` does not
        end in C.

    References
    ----------
    Press and Wolf (2017), "Using the Output Embedding to Improve Language Models". The bias: Wang
    and Komatsuzaki (2021), "GPT-J-6B", whose code has one.

    Examples
    --------
    >>> from numformer.layers import Embedding
    >>> table = Embedding(5, 4, np.random.default_rng(0))
    >>> LMHead(table.weight)(np.ones((2, 4), np.float32)).shape
    (2, 5)
    """

    def __init__(self, weight, bias=None):
        if not isinstance(weight, Parameter) or weight.data.ndim != 2:
            raise TypeError("LMHead: weight must be a Parameter of shape (V, C), "
                            f"but is {weight!r}.")
        if bias is not None and not (isinstance(bias, Parameter)
                                     and bias.data.shape == weight.data.shape[:1]):
            raise TypeError(f"LMHead: bias must be a Parameter of shape (V,) = "
                            f"{weight.data.shape[:1]}, or None, but is {bias!r}.")
        self.weight, self.bias = weight, bias

    def forward(self, x):
        return linear(x, self.weight.data.T, None if self.bias is None else self.bias.data)

    def backward(self, dy, saved):
        weight_grad = _gradient(self.weight)
        return linear_backward_accumulate(                            # of W', (C, V)
            dy, saved, None if weight_grad is None else weight_grad.T, _gradient(self.bias))

    def describe(self):
        V, C = self.weight.data.shape
        return Description("LM head", by(C, V), (r"dx = dy\,E", r"dE = dy^\top x"), weights=V * C)


def head_loss(head, x, targets, **options):
    """The mean cross-entropy of what a head makes of x; the logits of a table never exist whole.

    Parameters
    ----------
    head : Layer
        An `LMHead` without a bias; or any other layer, whose logits are then computed as they are.
    x : ndarray, shape (..., C)
    targets : ndarray of int, shape (...)
    **options
        Of `cross_entropy`.

    Returns
    -------
    loss : scalar, nats a target
    saved : tuple

    Examples
    --------
    >>> from numformer.layers import Embedding
    >>> head = LMHead(Embedding(5, 4, np.random.default_rng(0)).weight)
    >>> loss, saved = head_loss(head, np.zeros((2, 4), np.float32), np.array([1, 2]))
    >>> print(round(float(loss), 3))                                  # ln 5
    1.609
    """
    if type(head) is LMHead and head.bias is None:
        return linear_cross_entropy(x, head.weight.data, targets, **options)
    logits, saved_head = head.forward(x)                              # (..., V)
    loss, saved_loss = cross_entropy(logits, targets, **options)

    saved = (saved_head, saved_loss)
    return loss, saved


def head_loss_backward(head, dloss, saved):
    """Add to the gradient of the head's weight, and return that of x."""
    if type(head) is LMHead and head.bias is None:
        return linear_cross_entropy_backward_accumulate(dloss, saved, _gradient(head.weight))
    saved_head, saved_loss = saved

    # loss = cross_entropy(head(x), targets)
    return head.backward(cross_entropy_backward(dloss, saved_loss), saved_head)
