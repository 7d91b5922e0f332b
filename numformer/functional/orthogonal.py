"""Newton-Schulz iteration for Muon: nearly the nearest orthogonal matrix, by products only."""

import numpy as np

from numformer.checks import check_array, check_whole
from numformer.functional.scaling import rescaled

# a, b, c of the quintic a s + b s^3 + c s^5 (Jordan et al. 2024). It is steep at 0, so that small
# singular values grow fast.
QUINTIC = (3.4445, -4.7750, 2.0315)


def orthogonalize(matrix, steps=5):
    r"""Bring all singular values of a matrix near 1, and keep its singular vectors.

    .. math::

        X_0 = G / \lVert G \rVert, \qquad A = X_k X_k^\top, \qquad
        X_{k+1} = a X_k + (b A + c A^2) X_k

    Every step applies the odd polynomial :math:`a s + b s^3 + c s^5` to each singular value s. Five
    steps bring values from 0.01 up into 0.68 .. 1.14. The iteration does not converge to 1: the
    coefficients give this up for speed.

    Parameters
    ----------
    matrix : ndarray, shape (C, F)
        G.
    steps : int

    Returns
    -------
    ndarray, shape (C, F)
        Zeros for zeros.

    Raises
    ------
    ValueError, TypeError
        If `matrix` is not a matrix of floats, or steps is not a positive integer.

    References
    ----------
    Jordan et al. (2024), "Muon: An optimizer for hidden layers in neural networks"; the iteration
    is that of Bernstein and Newhouse (2024), "Old Optimizer, New Norm".

    Examples
    --------
    >>> singular_values = np.linalg.svd(orthogonalize(np.diag([3.0, 1.0, 0.1])))[1]
    >>> bool((0.68 < singular_values).all() and (singular_values < 1.14).all())
    True
    """
    C, F = check_array("orthogonalize", "matrix", matrix, "(C, F)").values()
    check_whole("orthogonalize", "steps", steps)
    a, b, c = QUINTIC
    x, _ = rescaled(matrix, axis=None)               # the scale cancels
    norm = float(np.linalg.norm(x))                  # Frobenius: at least every singular value
    x = x * (1 / norm) if norm > 0 else x
    x = x.T if C > F else x                          # the smaller of the two Gram matrices
    for _ in range(steps):
        A = x @ x.T
        x = a * x + (b * A + c * (A @ A)) @ x
    return np.ascontiguousarray(x.T if C > F else x)
