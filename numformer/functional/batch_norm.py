"""BatchNorm: every coordinate normalized over all vectors of the batch. What LayerNorm does to rows, it does to columns.

So a vector's output depends on whatever else is in the batch, and a sequence alone has no batch: for inference there are
statistics that were gathered in training. They are a value that the caller keeps, like a cache.
"""

from typing import NamedTuple

import numpy as np

from numformer.checks import check_array, check_mask, check_number


class BatchStatistics(NamedTuple):
    """Mean and variance of every coordinate, gathered over batches by `gathered_statistics`.

    Parameters
    ----------
    mean, variance : ndarray, shape (C,)
    """

    mean: np.ndarray
    variance: np.ndarray


def batch_norm(x, gain, shift=None, epsilon=1e-5, statistics=None, mask=None):
    r"""Give every coordinate zero mean and unit variance over the batch, then scale and shift it.

    .. math::

        y_n = \gamma \hat{x}_n + \beta, \qquad \hat{x}_n = (x_n - \mu)\, r, \qquad r = (\sigma^2 + \epsilon)^{-1/2}, \qquad
        \mu = \langle x_n \rangle_n, \quad \sigma^2 = \langle (x_n - \mu)^2 \rangle_n

    where n runs over all N vectors of the batch, whatever axes they stand on. With statistics given, mu and sigma squared are
    constants: the map is affine, and every vector is by itself.

    Parameters
    ----------
    x : ndarray, shape (..., C)
    gain : ndarray, shape (C,)
        gamma.
    shift : ndarray, shape (C,), optional
        beta.
    epsilon : float
        Keeps the root away from zero.
    statistics : pair (mean, variance) of ndarray, shape (C,), optional
        For inference; they have no gradient, and are taken in the precision of `x`.
    mask : ndarray of bool, shape (...), optional
        True: a real vector. The others only fill up: they count nowhere, and their outputs and gradients are 0.

    Returns
    -------
    y : ndarray, shape (..., C)
    saved : tuple
        For `batch_norm_backward` and `gathered_statistics`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision and of width C, epsilon is negative, the mask has another shape, or the
        statistics would be those of fewer than two vectors.

    References
    ----------
    Ioffe and Szegedy (2015), "Batch Normalization", algorithm 1; the inference form is step 11 of algorithm 2.

    Examples
    --------
    >>> x = np.array([[1.0, 10.0], [3.0, 30.0]])
    >>> batch_norm(x, np.ones(2), np.zeros(2))[0].round(3)
    array([[-1., -1.],
           [ 1.,  1.]])
    >>> batch_norm(x, np.ones(2), statistics=(np.array([1.0, 10.0]), np.array([4.0, 100.0])))[0].round(3)
    array([[0., 0.],
           [1., 2.]])
    """
    check_batch_norm(x, gain, shift, epsilon, statistics, mask)
    real = np.ones(x.shape[:-1], bool) if mask is None else mask
    vectors = x[real]                                                 # (N, C): those that only fill up are left behind
    n = len(vectors)
    if statistics is not None:
        mean, variance = (array.astype(x.real.dtype, copy=False) for array in statistics)
    elif n > 1:
        mean = vectors.sum(axis=0) / n                                # (C,)
        centred = vectors - mean
        variance = (centred * centred).sum(axis=0) / n                # no np.var: it takes |z|^2, blind to a complex step
    else:
        raise ValueError(f"batch_norm: the statistics of a batch need 2 vectors or more, but x of shape {x.shape} has {n} that count; "
                         "give a larger batch, or statistics gathered before.")
    rstd = (variance + float(epsilon)) ** -0.5
    y = gain * ((vectors - mean) * rstd)
    if shift is not None:
        y = y + shift
    y = _laid_out(y, real)                                            # (..., C)

    saved = (x, gain, shift is not None, statistics is not None, real, mean, variance, rstd)
    return y, saved


def batch_norm_backward(dy, saved):
    r"""The gradient of `batch_norm`: that of `layer_norm` with the sums down the columns instead of along the rows.

    .. math::

        \bar{x}_n = r \gamma \left( \bar{y}_n - \langle \bar{y}_m \rangle_m - \hat{x}_n \langle \bar{y}_m \hat{x}_m \rangle_m \right)

    and with statistics given, :math:`\bar{x}_n = r \gamma\, \bar{y}_n`: constants do not move with x.

    Returns
    -------
    dx : ndarray, shape (..., C)
    dgain : ndarray, shape (C,)
    dshift : ndarray, shape (C,), or None where there was no shift
    """
    x, gain, shifted, given, real, mean, variance, rstd = saved
    x_hat = (x[real] - mean) * rstd                                   # (N, C)
    dvectors = dy[real]

    # y = gain * x_hat;  y = y + shift
    dgain = (dvectors * x_hat).sum(axis=0)
    dshift = dvectors.sum(axis=0) if shifted else None
    dx_hat = dvectors * gain

    # x_hat = (vectors - mean) * rstd, where mean = mean(vectors) and rstd = rstd(vectors) unless they were given
    if not given:
        dx_hat = (dx_hat
                  - dx_hat.sum(axis=0) / len(dx_hat)                  # through the mean
                  - x_hat * ((dx_hat * x_hat).sum(axis=0) / len(dx_hat)))    # through the variance
    dx = _laid_out(rstd * dx_hat, real)
    return dx, dgain, dshift


def gathered_statistics(statistics, saved, momentum=0.1):
    r"""The statistics to go on with, after a batch: the old ones moved a little towards its own.

    .. math::

        \mu \leftarrow (1 - m)\, \mu + m\, \mu_B, \qquad
        \sigma^2 \leftarrow (1 - m)\, \sigma^2 + m\, \tfrac{N}{N - 1}\, \sigma_B^2

    The batch is a sample: N / (N - 1) makes its variance unbiased, as the paper has it.

    Parameters
    ----------
    statistics : BatchStatistics or None
        Gathered before; None at the start, and then those of this batch are the answer.
    saved : tuple
        Of the batch's `batch_norm`, which must have made statistics of its own.
    momentum : float, above 0 and below 1
        m, the weight of this batch.

    Returns
    -------
    BatchStatistics
        A new value; the old one stays good.

    Raises
    ------
    ValueError
        If the momentum lies outside, or the batch was normalized by given statistics.

    References
    ----------
    Ioffe and Szegedy (2015), section 3.1 and algorithm 2, step 10; the moving average stands in section 3.1.

    Examples
    --------
    >>> _, saved = batch_norm(np.array([[1.0], [3.0]]), np.ones(1))
    >>> gathered_statistics(None, saved)
    BatchStatistics(mean=array([2.]), variance=array([2.]))
    >>> gathered_statistics(BatchStatistics(np.zeros(1), np.ones(1)), saved)
    BatchStatistics(mean=array([0.2]), variance=array([1.1]))
    """
    check_number("gathered_statistics", "momentum", momentum, above=0, below=1)
    *_, given, real, mean, variance, _ = saved
    if given:
        raise ValueError("gathered_statistics: this batch was normalized by given statistics and has none of its own; "
                         "run it without them.")
    n, momentum = int(real.sum()), float(momentum)
    variance = variance * (n / (n - 1))
    if statistics is None:
        return BatchStatistics(mean.copy(), variance)
    return BatchStatistics(*((1 - momentum) * old + momentum * new for old, new in zip(statistics, (mean, variance))))


def check_batch_norm(x, gain, shift, epsilon, statistics, mask):
    """Check the arguments of `batch_norm`."""
    check_number("batch_norm", "epsilon", epsilon, least=0)
    C = check_array("batch_norm", "gain", gain, "(C,)")["C"]
    check_array("batch_norm", "x", x, "(..., C)", gain.dtype, C=C)
    if shift is not None:
        check_array("batch_norm", "shift", shift, "(C,)", gain.dtype, C=C)
    if statistics is not None:
        if not isinstance(statistics, tuple) or len(statistics) != 2:
            raise TypeError(f"batch_norm: statistics must be a pair (mean, variance), but are {type(statistics).__name__}.")
        for name, array in zip(("mean", "variance"), statistics):
            check_array("batch_norm", f"the statistics' {name}", array, "(C,)", C=C)
    if mask is not None:
        check_mask("batch_norm", mask, x.shape[:-1])


def _laid_out(vectors, real):
    """The vectors (N, C) at the places that are real, (..., C), and 0 at the others."""
    x = np.zeros((*real.shape, vectors.shape[-1]), vectors.dtype)
    x[real] = vectors
    return x
