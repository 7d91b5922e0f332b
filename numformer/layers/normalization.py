"""LayerNorm and RMSNorm with their parameters."""

import numpy as np

from numformer.backend import layer_norm, layer_norm_backward, rms_norm, rms_norm_backward
from numformer.checks import check_number, check_whole
from numformer.parameter import Layer, constant


class LayerNorm(Layer):
    """Layer normalization of (..., C) with a learned gain and shift: `layer_norm` and its two parameters.

    Parameters
    ----------
    width : int
        C, the size of the last axis.
    bias : bool
        Whether there is a shift.
    epsilon : float
    epsilon_inside : bool
        Whether epsilon stands inside the root (the default) or beside sigma.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If the width is not a whole number above 0, epsilon is negative, or `x` does not end in C.

    Examples
    --------
    >>> LayerNorm(3, dtype=np.float64)(np.array([[1.0, 2.0, 3.0]])).round(3)
    array([[-1.225,  0.   ,  1.225]])
    """

    def __init__(self, width, bias=True, epsilon=1e-5, epsilon_inside=True, dtype=np.float32):
        check_whole("LayerNorm", "width", width)
        check_number("LayerNorm", "epsilon", epsilon, least=0)
        self.gain = constant(1, (width,), dtype)
        self.shift = constant(0, (width,), dtype) if bias else None
        self.epsilon, self.epsilon_inside = epsilon, epsilon_inside

    def forward(self, x):
        shift = None if self.shift is None else self.shift.data
        return layer_norm(x, self.gain.data, shift, self.epsilon, self.epsilon_inside)

    def backward(self, dy, saved):
        dx, dgain, dshift = layer_norm_backward(dy, saved)
        self.gain.grad += dgain
        if self.shift is not None:
            self.shift.grad += dshift
        return dx


class RMSNorm(Layer):
    """Root-mean-square normalization of (..., C) with a learned gain: `rms_norm` and its parameter.

    Parameters
    ----------
    width : int
        C, the size of the last axis.
    epsilon : float
    epsilon_inside : bool
        Whether epsilon stands inside the root (the default) or beside the root mean square.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If the width is not a whole number above 0, epsilon is negative, or `x` does not end in C.

    Examples
    --------
    >>> RMSNorm(4, dtype=np.float64)(np.array([[1.0, 1.0, 2.0, 3.0]])).round(3)
    array([[0.516, 0.516, 1.033, 1.549]])
    """

    def __init__(self, width, epsilon=1e-5, epsilon_inside=True, dtype=np.float32):
        check_whole("RMSNorm", "width", width)
        check_number("RMSNorm", "epsilon", epsilon, least=0)
        self.gain = constant(1, (width,), dtype)
        self.epsilon, self.epsilon_inside = epsilon, epsilon_inside

    def forward(self, x):
        return rms_norm(x, self.gain.data, self.epsilon, self.epsilon_inside)

    def backward(self, dy, saved):
        dx, dgain = rms_norm_backward(dy, saved)
        self.gain.grad += dgain
        return dx
