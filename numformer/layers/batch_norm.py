"""BatchNorm with its parameters; its statistics are a value that comes and goes."""

import numpy as np

from numformer.checks import check_number, check_whole
from numformer.functional.batch_norm import batch_norm, batch_norm_backward, gathered_statistics
from numformer.parameter import Layer, constant


class BatchNorm(Layer):
    """Batch normalization of (..., C) with a learned gain and shift: `batch_norm` and its two parameters.

    In training every batch has statistics of its own, and `updated` gathers them for inference. What is gathered is no state of the
    layer: the caller keeps it, and hands it in when it is to be used.

    Where a batch is cut into shards, each is normalized by itself: a vector's output depends on its shard alone.

    Parameters
    ----------
    width : int
        C, the size of the last axis.
    bias : bool
        Whether there is a shift.
    epsilon : float
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If the width is not a whole number above 0, epsilon is negative, `x` does not end in C or is a single vector.

    References
    ----------
    Ioffe and Szegedy (2015), "Batch Normalization", algorithms 1 and 2.

    Examples
    --------
    >>> layer, statistics = BatchNorm(1, dtype=np.float64), None
    >>> for batch in (np.array([[1.0], [3.0]]), np.array([[5.0], [7.0]])):
    ...     y, saved = layer.forward(batch)
    ...     statistics = layer.updated(statistics, saved, momentum=0.5)
    >>> statistics
    BatchStatistics(mean=array([4.]), variance=array([2.]))
    >>> layer(np.array([[4.0]]), statistics=statistics)               # inference: a single vector will do
    array([[0.]])
    """

    def __init__(self, width, bias=True, epsilon=1e-5, dtype=np.float32):
        check_whole("BatchNorm", "width", width)
        check_number("BatchNorm", "epsilon", epsilon, least=0)
        self.gain = constant(1, (width,), dtype)
        self.shift = constant(0, (width,), dtype) if bias else None
        self.epsilon = epsilon

    def forward(self, x, statistics=None, mask=None):
        """Normalize.

        Parameters
        ----------
        x : ndarray, shape (..., C)
        statistics : BatchStatistics, optional
            For inference; None for those of this batch.
        mask : ndarray of bool, shape (...), optional
            True: a real vector. Padding counts nowhere, and comes out as 0.

        Returns
        -------
        y : ndarray, shape (..., C)
        saved : tuple
        """
        shift = None if self.shift is None else self.shift.data
        return batch_norm(x, self.gain.data, shift, self.epsilon, statistics, mask)

    def backward(self, dy, saved):
        dx, dgain, dshift = batch_norm_backward(dy, saved)
        self.gain.grad += dgain
        if self.shift is not None:
            self.shift.grad += dshift
        return dx

    def updated(self, statistics, saved, momentum=0.1):
        """The statistics to go on with after a batch: `gathered_statistics`. A new value; None at the start."""
        return gathered_statistics(statistics, saved, momentum)
