"""The affine map: every learned projection of a Transformer is this one function."""

from numformer.checks import check_array


def linear(x, weight, bias=None):
    r"""Mix the coordinates of every vector: each output coordinate is a weighted sum of the inputs.

    .. math:: y = x W + b

    Parameters
    ----------
    x : ndarray, shape (..., C)
    weight : ndarray, shape (C, F)
        Input width by output width, as the equation reads.
    bias : ndarray, shape (F,), optional

    Returns
    -------
    y : ndarray, shape (..., F)
    saved : tuple
        For `linear_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision, or their widths do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> linear(np.array([[1.0, 2.0]]), np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]]), np.array([0.0, 0.0, 0.5]))[0]
    array([[1. , 2. , 4.5]])
    """
    check_linear(x, weight, bias)
    vectors = x.reshape(-1, x.shape[-1])                              # (N, C): one product for all of them
    y = vectors @ weight
    if bias is not None:
        y = y + bias
    y = y.reshape(*x.shape[:-1], weight.shape[1])                     # (..., F)

    saved = (x, weight, bias is not None)
    return y, saved


def linear_backward(dy, saved, dweight=None):
    r"""The gradient of `linear`: the same products with one factor turned.

    .. math:: \bar{x} = \bar{y} W^\top, \qquad \bar{W} = x^\top \bar{y}, \qquad \bar{b} = \sum_n \bar{y}_n

    Parameters
    ----------
    dweight : ndarray, shape (C, F), optional
        Where the gradient of the weight is added, as gradients of a layer are; a new array unless given.

    Returns
    -------
    dx : ndarray, shape (..., C)
    dweight : ndarray, shape (C, F)
    dbias : ndarray, shape (F,), or None where there was no bias
    """
    x, weight, biased = saved
    vectors = x.reshape(-1, x.shape[-1])                              # (N, C)
    dvectors = dy.reshape(-1, dy.shape[-1])                           # (N, F)

    # y = y + bias
    dbias = dvectors.sum(axis=0) if biased else None

    # y = vectors @ weight
    dx = dvectors @ weight.T
    gradient = vectors.T @ dvectors
    if dweight is None:
        dweight = gradient
    else:
        dweight += gradient
    return dx.reshape(x.shape), dweight, dbias


def check_linear(x, weight, bias):
    """Check the arguments of `linear`."""
    sizes = check_array("linear", "weight", weight, "(C, F)")
    check_array("linear", "x", x, "(..., C)", weight.dtype, C=sizes["C"])
    if bias is not None:
        check_array("linear", "bias", bias, "(F,)", weight.dtype, F=sizes["F"])
