"""BatchNorm at inference, and BatchNorm of batches with padding."""

import numpy as np

from numformer.checks import check_array, check_mask
from numformer.functional.norms.batch_norm import (
    batch_norm, batch_norm_backward, check_batch_norm)


def batch_norm_inference(x, weight, bias, statistics, epsilon=1e-5):
    r"""`batch_norm` with given statistics: an affine map, and every vector is on its own.

    .. math:: y = \gamma \hat{x} + \beta, \qquad \hat{x} = (x - \mu)\, r, \qquad
              r = (\sigma^2 + \epsilon)^{-1/2}

    Parameters
    ----------
    x : ndarray, shape (..., C)
    weight, bias : ndarray, shape (C,)
        gamma and beta.
    statistics : pair (mean, variance) of ndarray, shape (C,)
        mu and sigma squared, such as `gathered_statistics`. Constants: they have no gradient. They
        are cast to the precision of `x`.
    epsilon : float

    Returns
    -------
    y : ndarray, shape (..., C)
    saved : tuple
        For `batch_norm_inference_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision and of width C, epsilon is negative, or the
        statistics are not a pair of vectors of width C.

    References
    ----------
    Ioffe and Szegedy (2015), "Batch Normalization", algorithm 2, step 11.

    Examples
    --------
    >>> statistics = np.array([1.0, 10.0]), np.array([4.0, 100.0])
    >>> batch_norm_inference(np.array([3.0, 30.0]), np.ones(2), np.zeros(2), statistics)[0].round(3)
    array([1., 2.])
    """
    check_batch_norm("batch_norm_inference", x, weight, bias, epsilon)
    check_statistics(statistics, len(weight))
    mean, variance = (array.astype(x.real.dtype, copy=False) for array in statistics)
    rstd = (variance + float(epsilon)) ** -0.5
    x_hat = (x - mean) * rstd
    y = weight * x_hat + bias

    saved = (x, weight, mean, rstd, None)            # None: no statistics of this batch to gather
    return y, saved


def batch_norm_inference_backward(dy, saved):
    r"""The gradient of `batch_norm_inference`: the statistics are constants.

    .. math:: \bar{x} = r\, \gamma\, \bar{y}

    Returns
    -------
    dx : ndarray, shape (..., C)
    dweight, dbias : ndarray, shape (C,)
    """
    x, weight, mean, rstd, _ = saved
    x_hat = (x - mean) * rstd
    vectors = tuple(range(dy.ndim - 1))                              # every axis but the last

    # y = weight * x_hat + bias
    dweight = (dy * x_hat).sum(axis=vectors)
    dbias = dy.sum(axis=vectors)
    dx_hat = dy * weight

    # x_hat = (x - mean) * rstd
    return rstd * dx_hat, dweight, dbias


def masked_batch_norm(x, weight, bias, mask, epsilon=1e-5, statistics=None):
    """`batch_norm`, or `batch_norm_inference`, of the vectors that are not padding.

    Parameters
    ----------
    x : ndarray, shape (..., C)
    weight, bias : ndarray, shape (C,)
    mask : ndarray of bool, shape (...)
        True: a real vector. Padding counts in no statistic, whatever it holds; its outputs and
        gradients are 0.
    epsilon : float
    statistics : pair (mean, variance) of ndarray, shape (C,), optional
        For inference.

    Returns
    -------
    y : ndarray, shape (..., C)
    saved : tuple
        For `masked_batch_norm_backward` and `gathered_statistics`.

    Raises
    ------
    ValueError, TypeError
        As `batch_norm` and `batch_norm_inference`, or if the mask is not an array of bool of that
        shape.

    Examples
    --------
    >>> x, mask = np.array([[1.0], [3.0], [99.0]]), np.array([True, True, False])
    >>> masked_batch_norm(x, np.ones(1), np.zeros(1), mask)[0].round(3)
    array([[-1.],
           [ 1.],
           [ 0.]])
    """
    check_batch_norm("masked_batch_norm", x, weight, bias, epsilon)
    check_mask("masked_batch_norm", mask, x.shape[:-1])
    if statistics is None:
        vectors, saved_norm = batch_norm(x[mask], weight, bias, epsilon)      # (N, C)
    else:
        vectors, saved_norm = batch_norm_inference(x[mask], weight, bias, statistics, epsilon)
    y = scatter(vectors, mask)                                       # (..., C)

    saved = (mask, saved_norm, saved_norm[-1])       # the last: the statistics of the real vectors
    return y, saved


def masked_batch_norm_backward(dy, saved):
    """The gradient of `masked_batch_norm`: that of the norm for real vectors, 0 for padding.

    Returns
    -------
    dx : ndarray, shape (..., C)
    dweight, dbias : ndarray, shape (C,)
    """
    mask, saved_norm, statistics = saved

    # y[mask] = batch_norm(x[mask], weight, bias), or batch_norm_inference, which gathers none
    backward = batch_norm_inference_backward if statistics is None else batch_norm_backward
    dvectors, dweight, dbias = backward(dy[mask], saved_norm)
    return scatter(dvectors, mask), dweight, dbias


def scatter(vectors, mask):
    """The vectors (N, C) at the N positions where the mask is True, and 0 elsewhere: (..., C)."""
    x = np.zeros((*mask.shape, vectors.shape[1]), vectors.dtype)
    x[mask] = vectors
    return x


def check_statistics(statistics, C):
    """Check the statistics of `batch_norm_inference`."""
    if not isinstance(statistics, tuple) or len(statistics) != 2:
        raise TypeError("batch_norm_inference: statistics must be a pair (mean, variance), but are "
                        f"{type(statistics).__name__}.")
    for name, array in zip(("mean", "variance"), statistics):
        check_array("batch_norm_inference", f"the statistics' {name}", array, "(C,)", C=C)
