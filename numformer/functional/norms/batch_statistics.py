"""BatchNorm's statistics: gathered in training, used at inference, where there may be no batch.

They are a value that the caller keeps, like a KV cache.
"""

from typing import NamedTuple

import numpy as np

from numformer.checks import check_number


class BatchStatistics(NamedTuple):
    """Mean and unbiased variance of every coordinate.

    Parameters
    ----------
    mean, variance : ndarray, shape (C,)
    """

    mean: np.ndarray
    variance: np.ndarray


def gathered_statistics(statistics, saved, momentum=0.1):
    r"""Update the running statistics with those of a batch: an exponential moving average.

    .. math::

        \mu \leftarrow (1 - m)\, \mu + m\, \mu_B, \qquad
        \sigma^2 \leftarrow (1 - m)\, \sigma^2 + m\, \tfrac{N}{N - 1}\, \sigma_B^2

    The batch is a sample: N / (N - 1) makes its variance unbiased, as in the paper.

    Parameters
    ----------
    statistics : BatchStatistics or None
        The running statistics so far; None at the start, where those of the batch are returned.
    saved : tuple
        From `batch_norm` or `masked_batch_norm` of this batch.
    momentum : float, above 0 and below 1
        m, the weight of this batch.

    Returns
    -------
    BatchStatistics
        A new value; the old one is not modified.

    Raises
    ------
    ValueError
        If the momentum is out of range, or the batch was normalized with given statistics.

    References
    ----------
    Ioffe and Szegedy (2015), "Batch Normalization", section 3.1 and algorithm 2, step 10.

    Examples
    --------
    >>> from numformer.functional import batch_norm
    >>> _, saved = batch_norm(np.array([[1.0], [3.0]]), np.ones(1), np.zeros(1))
    >>> gathered_statistics(None, saved)
    BatchStatistics(mean=array([2.]), variance=array([2.]))
    >>> gathered_statistics(BatchStatistics(np.zeros(1), np.ones(1)), saved)
    BatchStatistics(mean=array([0.2]), variance=array([1.1]))
    """
    check_number("gathered_statistics", "momentum", momentum, above=0, below=1)
    batch, momentum = saved[-1], float(momentum)
    if batch is None:
        raise ValueError("gathered_statistics: this batch was normalized with given statistics and "
                         "has none of its own; run it without them.")
    if statistics is None:
        return BatchStatistics(batch.mean.copy(), batch.variance.copy())
    return BatchStatistics(*((1 - momentum) * old + momentum * new
                             for old, new in zip(statistics, batch)))
