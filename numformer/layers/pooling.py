"""Pooling: one vector for a whole sequence."""

import numpy as np

from numformer.checks import check_array, check_choice
from numformer.functional.pooling import max_pooling, max_pooling_backward, mean_pooling, mean_pooling_backward
from numformer.parameter import Layer

POOLINGS = {"mean": (mean_pooling, mean_pooling_backward), "max": (max_pooling, max_pooling_backward)}


class Pooling(Layer):
    r"""Make one vector of a sequence, (B, T, C) to (B, C): that of the class token, which stands first, the mean, or the maximum.

    .. math:: y = x_0 \quad\text{or}\quad y = \langle x_t \rangle_t \quad\text{or}\quad y_c = \max_t x_{tc}

    Parameters
    ----------
    kind : "class", "mean" or "max"

    Raises
    ------
    ValueError, TypeError
        If the kind is unknown, `x` has no three axes, or a sequence no real position.

    References
    ----------
    Devlin et al. (2019), "BERT", section 3, for the class token; Reimers and Gurevych (2019), "Sentence-BERT", section 3, for all three.

    Examples
    --------
    >>> x = np.array([[[1.0, 4.0], [3.0, 0.0]]])
    >>> [Pooling(kind)(x).tolist() for kind in ("class", "mean", "max")]
    [[[1.0, 4.0]], [[2.0, 2.0]], [[3.0, 4.0]]]
    """

    def __init__(self, kind):
        check_choice("Pooling", "kind", kind, ["class", *POOLINGS])
        self.kind = kind

    def forward(self, x, mask=None):
        """Pool.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
        mask : ndarray of bool, shape (B, T), optional
            True: a real position. Mean and maximum leave the others out; the class token stands first in any case.

        Returns
        -------
        y : ndarray, shape (B, C)
        saved : tuple
        """
        if self.kind != "class":
            return POOLINGS[self.kind][0](x, mask)
        if check_array("Pooling", "x", x, "(B, T, C)")["T"] == 0:
            raise ValueError(f"Pooling: x has shape {x.shape} and so no class token; give at least one position.")
        return x[:, 0].copy(), x.shape

    def backward(self, dy, saved):
        if self.kind != "class":
            return POOLINGS[self.kind][1](dy, saved)

        # y = x[:, 0]
        dx = np.zeros(saved, dy.dtype)
        dx[:, 0] = dy
        return dx
