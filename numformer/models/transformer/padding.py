"""Which positions of a batch of texts are tokens, and which padding."""

import numpy as np


def real_positions(lengths, T):
    """Which of T positions are no padding, (B, T); None without lengths: all are real.

    Parameters
    ----------
    lengths : array_like of int, shape (B,), or None
        The number of tokens of each text.
    T : int

    Examples
    --------
    >>> real_positions([3, 1], 4)
    array([[ True,  True,  True, False],
           [ True, False, False, False]])
    """
    return None if lengths is None else np.arange(T) < np.asarray(lengths)[:, None]
