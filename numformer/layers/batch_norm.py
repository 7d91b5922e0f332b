"""BatchNorm and its parameters; running statistics are a value that the caller keeps."""

import numpy as np

from numformer.checks import check_number, check_whole
from numformer.description import Description
from numformer.functional.norms.batch_norm import batch_norm, batch_norm_backward
from numformer.functional.norms.batch_norm_variants import (
    batch_norm_inference, batch_norm_inference_backward, masked_batch_norm,
    masked_batch_norm_backward)
from numformer.functional.norms.batch_statistics import gathered_statistics
from numformer.layers.normalization import NORM_GRADIENT
from numformer.parameter import Layer, constant


class BatchNorm(Layer):
    """Batch normalization of (..., C) with a learned weight and bias: `batch_norm`.

    In training each batch is normalized with its own statistics, and `updated` averages them for
    inference. The average is not a state of the layer: the caller keeps it and passes it to
    `forward` at inference.

    If a batch is cut into shards, each shard has its own statistics.

    Parameters
    ----------
    width : int
        C, the size of the last axis.
    bias : bool
        Whether there is a bias.
    epsilon : float
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If the width is not a whole number above 0, epsilon is negative, or `x` does not end in C or
        is a single vector.

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
    >>> layer(np.array([[4.0]]), statistics=statistics)            # inference: one vector is enough
    array([[0.]])
    """

    def __init__(self, width, bias=True, epsilon=1e-5, dtype=np.float32):
        check_whole("BatchNorm", "width", width)
        check_number("BatchNorm", "epsilon", epsilon, least=0)
        self.weight = constant(1, (width,), dtype)
        self.bias = constant(0, (width,), dtype) if bias else None
        self.epsilon = epsilon

    def forward(self, x, statistics=None, mask=None):
        """Normalize.

        Parameters
        ----------
        x : ndarray, shape (..., C)
        statistics : BatchStatistics, optional
            For inference; None for those of this batch.
        mask : ndarray of bool, shape (...), optional
            True for real vectors. Padding enters no statistics, and its output is 0.

        Returns
        -------
        y : ndarray, shape (..., C)
        saved : tuple
        """
        weight, epsilon = self.weight.data, self.epsilon
        bias = np.zeros_like(weight) if self.bias is None else self.bias.data
        if mask is not None:
            norm_backward = masked_batch_norm_backward
            y, saved_norm = masked_batch_norm(x, weight, bias, mask, epsilon, statistics)
        elif statistics is not None:
            norm_backward = batch_norm_inference_backward
            y, saved_norm = batch_norm_inference(x, weight, bias, statistics, epsilon)
        else:
            norm_backward = batch_norm_backward
            y, saved_norm = batch_norm(x, weight, bias, epsilon)

        saved = (norm_backward, saved_norm)
        return y, saved

    def backward(self, dy, saved):
        norm_backward, saved_norm = saved
        dx, dweight, dbias = norm_backward(dy, saved_norm)
        self.weight.grad += dweight
        if self.bias is not None:
            self.bias.grad += dbias
        return dx

    def updated(self, statistics, saved, momentum=0.1):
        """The running statistics after one more batch: `gathered_statistics`.

        `statistics` are those before it, None at the start; the result is a new value.
        """
        _, saved_norm = saved
        return gathered_statistics(statistics, saved_norm, momentum)

    def describe(self):
        return Description("BatchNorm", gradient=NORM_GRADIENT)
