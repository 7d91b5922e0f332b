"""Gradient clipping: the norm of all gradients together, and the factor that bounds it."""

import math

import numpy as np

from numformer.backend import run_by_shares, sum_of_squares
from numformer.functional.scaling import rescaled


def global_norm(parameters):
    r"""The norm of all gradients as one vector, summed in float64.

    .. math:: \lVert g \rVert = \Big( \sum_p \lVert g_p \rVert^2 \Big)^{1/2}

    Examples
    --------
    >>> import numpy as np
    >>> from numformer import Parameter
    >>> parameter = Parameter(np.zeros(2, np.float32)); parameter.grad[:] = 3, 4
    >>> global_norm([parameter])
    5.0
    """
    return total_norm(run_by_shares(lambda parameter: squared_norm(parameter.grad), parameters))


def squared_norm(x):
    """(the sum of the squares of an array, its norm): the one over- or underflows before the other.

    Examples
    --------
    >>> square, norm = squared_norm(np.array([3e200, 4e200]))
    >>> square, round(norm / 1e200, 6)
    (inf, 5.0)
    """
    with np.errstate(over="ignore"):                 # in float64: squares of float32 are in range
        square = sum_of_squares(x)
        if is_exact(square) or x.dtype != np.float64:
            return square, math.sqrt(square)
        scaled, scale = rescaled(x, axis=None)
        return square, math.sqrt(sum_of_squares(scaled)) * float(np.max(scale))


def total_norm(parts):
    """The norm of all parts together, from the `squared_norm` of each."""
    square = sum(square for square, _ in parts)
    return math.sqrt(square) if is_exact(square) else math.hypot(*(norm for _, norm in parts))


def is_exact(square):
    """Whether a sum of squares, in float64, is so far from both limits that none was lost."""
    return 1e-270 < square < 1e300


def clip_factor(norm, max_norm):
    r"""The factor that scales gradients of norm `norm` to at most `max_norm`; 0 clips nothing.

    .. math:: \min(1, \text{max norm} / \lVert g \rVert)

    References
    ----------
    Pascanu, Mikolov, Bengio (2013), "On the Difficulty of Training Recurrent Neural Networks",
    algorithm 1.

    Examples
    --------
    >>> clip_factor(5.0, 1.0), clip_factor(5.0, 7.0), clip_factor(5.0, 0)
    (0.2, 1.0, 1.0)
    """
    return max_norm / norm if 0 < max_norm < norm else 1.0
