"""What position layers share that add a vector to every token, or append one."""

import numpy as np

from numformer.checks import check_array, check_whole
from numformer.parameter import Layer


class AddedPositions(Layer):
    r"""Add the vector of its position to every token, (B, T, C) to (B, T, C).

    .. math:: y_t = x_t + p_t

    A scheme is a subclass with two methods, `vectors` and, where the vectors are trained,
    `vectors_backward`, and with the attribute `width`, C. Configs choose it by its `scheme`, and
    `of_config` builds it.
    """

    scheme = None                                             # its name in configs
    dtype = None                                              # of trained vectors; x must have it

    @classmethod
    def of_config(cls, config, rng, length):
        """The layer of a stack that reads sequences of at most this length."""
        return cls(config.d_model)

    def vectors(self, T, start, dtype):
        """The vectors p of T positions from `start` on.

        Parameters
        ----------
        T : int
        start : int, or ndarray of int of shape (B,)
            The position of the first token, one for all sequences or one for each.
        dtype : dtype
            Of vectors that are not trained.

        Returns
        -------
        p : ndarray, shape (T, C) or (B, T, C)
        saved : tuple
        """
        raise NotImplementedError

    def vectors_backward(self, dp, saved):
        """Add the gradient of the vectors, dp of shape (B, T, C), to the parameters' gradients."""

    def forward(self, x, start=0):
        """Add positions to tokens.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
        start : int, or ndarray of int of shape (B,)
            The position of the first token, one for all sequences or one for each. Positions
            below 0, before a sequence begins, count as 0.

        Returns
        -------
        y : ndarray, shape (B, T, C)
        saved : tuple

        Raises
        ------
        ValueError, TypeError
            If `x` or the positions do not fit.
        """
        owner = type(self).__name__
        T = check_array(owner, "x", x, "(B, T, C)", self.dtype, C=self.width)["T"]
        p, saved = self.vectors(T, start, x.real.dtype)               # (T, C) or (B, T, C)
        return x + p, saved

    def backward(self, dy, saved):
        # y = x + vectors(T, start)
        self.vectors_backward(dy, saved)
        return dy.copy()


def positions_from(start, T):
    """T positions from `start` on: (T,), or (B, T) for a start of each sequence.

    Examples
    --------
    >>> positions_from(np.array([3, -1]), 3)
    array([[3, 4, 5],
           [0, 0, 1]])
    """
    if np.ndim(start) == 0:
        check_whole("positions", "start", start, least=0)
        return np.arange(start, start + T)
    return np.maximum(np.asarray(start)[:, None] + np.arange(T), 0)
