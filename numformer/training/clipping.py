"""Gradient clipping: the norm of all gradients together, and the factor that bounds it."""

import math

import numpy as np

from numformer.backend import run_side_by_side, sums_of_squares
from numformer.flat_parameters import CHUNK
from numformer.functional.scaling import rescaled

SHARES = 4                              # of the arrays of a norm: work for as many threads


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
    return norm_of([parameter.grad for parameter in parameters])


def norm_of(arrays):
    """The norm of arrays as one vector; parts of them on several threads."""
    n_shares = SHARES if sum(x.size for x in arrays) > CHUNK else 1   # few numbers: one thread
    size = max(1, -(-len(arrays) // n_shares))
    shares = [arrays[start:start + size] for start in range(0, len(arrays), size)]
    return total_norm(sum(run_side_by_side(squared_norms, shares), []))


def squared_norms(arrays):
    """The sum of squares and the norm of each array: the first over- or underflows before.

    Examples
    --------
    >>> (square, norm), = squared_norms([np.array([3e200, 4e200])])
    >>> square, round(norm / 1e200, 6)
    (inf, 5.0)
    """
    with np.errstate(over="ignore", invalid="ignore"):
        squares = sums_of_squares(arrays)
        return [(square, math.sqrt(square) if is_exact(square) or x.dtype != np.float64
                 else _rescaled_norm(x)) for x, square in zip(arrays, squares)]


def _rescaled_norm(x):
    """The norm of float64 numbers whose squares are out of range, as no square of float32 is."""
    scaled, scale = rescaled(x, axis=None)
    return math.sqrt(sums_of_squares([scaled])[0]) * float(np.max(scale))


def total_norm(parts):
    """The norm of all parts together, from the `squared_norms` of each."""
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
