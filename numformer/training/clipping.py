"""Gradient clipping: the norm of all gradients together, and the factor that bounds it."""

from numformer.backend import run_by_shares, sum_of_squares


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
    squares = run_by_shares(lambda parameter: sum_of_squares(parameter.grad), parameters)
    return sum(squares) ** 0.5


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
