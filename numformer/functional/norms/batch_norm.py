"""BatchNorm: every coordinate normalized over all vectors of the batch.

LayerNorm normalizes the rows of a matrix of vectors, BatchNorm its columns. So the output for one
vector depends on the other vectors of the batch.
"""

from numformer.checks import check_array, check_number
from numformer.functional.norms.batch_statistics import BatchStatistics
from numformer.functional.scaling import rescaled


def batch_norm(x, weight, bias, epsilon=1e-5):
    r"""Give every coordinate zero mean and unit variance over the batch, then scale and shift it.

    .. math::

        y_n = \gamma \hat{x}_n + \beta, \qquad \hat{x}_n = (x_n - \mu)\, r, \qquad
        r = (\sigma^2 + \epsilon)^{-1/2}, \qquad
        \mu = \langle x_n \rangle_n, \quad \sigma^2 = \langle (x_n - \mu)^2 \rangle_n

    where n runs over all N vectors of the batch, over whatever axes they are arranged.

    Parameters
    ----------
    x : ndarray, shape (..., C)
    weight, bias : ndarray, shape (C,)
        gamma and beta.
    epsilon : float
        Keeps the root away from zero.

    Returns
    -------
    y : ndarray, shape (..., C)
    saved : tuple
        For `batch_norm_backward` and `gathered_statistics`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision and of width C, epsilon is negative, or the
        batch has fewer than two vectors.

    See Also
    --------
    batch_norm_inference : with statistics gathered in training.
    masked_batch_norm : for batches with padding.

    References
    ----------
    Ioffe and Szegedy (2015), "Batch Normalization", algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> batch_norm(np.array([[1.0, 10.0], [3.0, 30.0]]), np.ones(2), np.zeros(2))[0].round(3)
    array([[-1., -1.],
           [ 1.,  1.]])
    """
    check_batch_norm("batch_norm", x, weight, bias, epsilon)
    vectors = x.reshape(-1, x.shape[-1])                             # (N, C)
    n = len(vectors)
    if n < 2:
        raise ValueError(f"batch_norm: the statistics of a batch need 2 vectors or more, but x of "
                         f"shape {x.shape} has {n}; give a larger batch, or use "
                         "batch_norm_inference with statistics gathered before.")
    mean = vectors.sum(axis=0) / n                                   # (C,)
    centred = vectors - mean
    centred, scale = rescaled(centred, epsilon, axis=0)              # scale is 1, as a rule
    variance = (centred * centred).sum(axis=0) / n                 # np.var would lose complex steps
    scaled_rstd = (variance + float(epsilon) / scale / scale) ** -0.5
    y = weight * (centred * scaled_rstd) + bias

    unbiased = variance * (n / (n - 1)) * scale * scale              # as they are gathered
    rstd, statistics = scaled_rstd / scale, BatchStatistics(mean, unbiased)
    saved = (vectors, weight, rstd, statistics)
    return y.reshape(x.shape), saved


def batch_norm_backward(dy, saved):
    r"""The gradient of `batch_norm`: that of `layer_norm` with means over the batch.

    .. math::

        \bar{x}_n = r \left( g_n - \langle g_m \rangle_m
                    - \hat{x}_n \langle g_m \hat{x}_m \rangle_m \right), \qquad g = \gamma \bar{y}

    Returns
    -------
    dx : ndarray, shape (..., C)
    dweight, dbias : ndarray, shape (C,)
    """
    vectors, weight, rstd, statistics = saved
    x_hat = (vectors - statistics.mean) * rstd                       # (N, C)
    dvectors = dy.reshape(vectors.shape)

    # y = weight * x_hat + bias
    dweight = (dvectors * x_hat).sum(axis=0)
    dbias = dvectors.sum(axis=0)
    dx_hat = dvectors * weight

    # x_hat = (vectors - mean(vectors)) * rstd(vectors)
    n = len(vectors)
    dx = rstd * (dx_hat
                 - dx_hat.sum(axis=0) / n                            # through the mean
                 - x_hat * ((dx_hat * x_hat).sum(axis=0) / n))       # through the variance
    return dx.reshape(dy.shape), dweight, dbias


def check_batch_norm(owner, x, weight, bias, epsilon):
    """Check the arguments of `batch_norm`."""
    check_number(owner, "epsilon", epsilon, least=0)
    C = check_array(owner, "weight", weight, "(C,)")["C"]
    check_array(owner, "x", x, "(..., C)", weight.dtype, C=C)
    check_array(owner, "bias", bias, "(C,)", weight.dtype, C=C)
