"""LayerNorm and RMSNorm with their parameters."""

import numpy as np

from numformer.backend import (
    layer_norm, layer_norm_backward, layer_norm_outside, layer_norm_outside_backward, rms_norm,
    rms_norm_backward, rms_norm_outside, rms_norm_outside_backward)
from numformer.checks import check_choice, check_number, check_whole
from numformer.description import Description
from numformer.parameter import Layer, constant

# of LayerNorm and BatchNorm, for diagrams
NORM_GRADIENT = (
    r"d\hat{x} = \gamma\,dy", r"d\gamma = \Sigma\,dy\,\hat{x}",
    r"dx = r\,(d\hat{x} - \langle d\hat{x}\rangle - \hat{x}\langle d\hat{x}\,\hat{x}\rangle)")


class LayerNorm(Layer):
    """Layer normalization of (..., C) with a learned weight and bias: `layer_norm`.

    Parameters
    ----------
    width : int
        C, the size of the last axis.
    bias : bool
        Whether there is a bias.
    epsilon : float
    epsilon_inside : bool
        Whether epsilon is inside the root (the default) or added to sigma.
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
        self.weight = constant(1, (width,), dtype)
        self.bias = constant(0, (width,), dtype) if bias else None
        self.epsilon, self.epsilon_inside = epsilon, epsilon_inside

    def forward(self, x):
        norm = layer_norm if self.epsilon_inside else layer_norm_outside
        return norm(x, *self.arrays, self.epsilon)

    def backward(self, dy, saved):
        norm_backward = layer_norm_backward if self.epsilon_inside else layer_norm_outside_backward
        dx, dweight, dbias = norm_backward(dy, saved)
        self.weight.grad += dweight
        if self.bias is not None:
            self.bias.grad += dbias
        return dx

    @property
    def arrays(self):
        """(weight, bias), for functions that contain this norm; zeros where there is no bias."""
        weight = self.weight.data
        return weight, np.zeros_like(weight) if self.bias is None else self.bias.data

    @property
    def gradients(self):
        """The gradients of `arrays`; None where there is no bias."""
        return self.weight.grad, None if self.bias is None else self.bias.grad

    def describe(self):
        return Description("LayerNorm", gradient=NORM_GRADIENT)


class RMSNorm(Layer):
    r"""Root-mean-square normalization of (..., C) with a learned weight: `rms_norm`.

    .. math:: y = \gamma \hat{x}, \qquad \gamma = w \text{ or, with unit\_offset, } 1 + w

    With the offset, weight decay pulls the factors to 1 rather than to 0. The derivative of 1 + w
    is 1, so w has the gradient of gamma.

    Parameters
    ----------
    width : int
        C, the size of the last axis.
    epsilon : float
    epsilon_inside : bool
        Whether epsilon is inside the root (the default) or added to the root mean square.
    dtype : float32 or float64
    unit_offset : bool
        Whether the factors are 1 + weight, and the weight begins at 0, as in Gemma.

    Raises
    ------
    ValueError, TypeError
        If the width is not a whole number above 0, epsilon is negative, or `x` does not end in C.

    References
    ----------
    The offset is only in the published code of Gemma Team (2024), "Gemma".

    Examples
    --------
    >>> RMSNorm(4, dtype=np.float64)(np.array([[1.0, 1.0, 2.0, 3.0]])).round(3)
    array([[0.516, 0.516, 1.033, 1.549]])
    """

    def __init__(self, width, epsilon=1e-5, epsilon_inside=True, dtype=np.float32,
                 unit_offset=False):
        check_whole("RMSNorm", "width", width)
        check_number("RMSNorm", "epsilon", epsilon, least=0)
        check_choice("RMSNorm", "unit_offset", unit_offset, [True, False])
        self.weight = constant(0 if unit_offset else 1, (width,), dtype)
        self.epsilon, self.epsilon_inside = epsilon, epsilon_inside
        self.unit_offset = unit_offset

    def forward(self, x):
        norm = rms_norm if self.epsilon_inside else rms_norm_outside
        return norm(x, *self.arrays, self.epsilon)

    def backward(self, dy, saved):
        norm_backward = rms_norm_backward if self.epsilon_inside else rms_norm_outside_backward
        dx, dweight = norm_backward(dy, saved)
        self.weight.grad += dweight
        return dx

    @property
    def arrays(self):
        """(gamma,), for functions that contain this norm."""
        return 1 + self.weight.data if self.unit_offset else self.weight.data,

    @property
    def gradients(self):
        """The gradients of `arrays`."""
        return self.weight.grad,

    def describe(self):
        return Description("RMSNorm", gradient=(
            *NORM_GRADIENT[:2], r"dx = r\,(d\hat{x} - \hat{x}\langle d\hat{x}\,\hat{x}\rangle)"))
