"""Sinusoidal positions: a fixed vector of sines and cosines for every position."""

import numpy as np

from numformer.checks import check_whole


def sinusoidal_positions(positions, width, dtype=np.float64):
    r"""A clock with many hands: each pair of coordinates rotates at its own speed.

    .. math:: P_{t, 2i} = \sin(t\, \omega_i), \qquad P_{t, 2i+1} = \cos(t\, \omega_i), \qquad
              \omega_i = 10000^{-2i/C}

    The speeds run from 1 down to 1/10000 radians per position. The dot product of two positions
    depends only on the distance between them.

    Parameters
    ----------
    positions : ndarray of int, shape (T,)
    width : int
        C. If it is odd, the last sine has no cosine.
    dtype : float32 or float64
        The angles are computed in float64.

    Returns
    -------
    ndarray, shape (T, C)

    Raises
    ------
    ValueError
        If the width is not a whole number above 0.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 3.5.

    Examples
    --------
    >>> sinusoidal_positions(np.arange(2), 4).round(2)
    array([[0.  , 1.  , 0.  , 1.  ],
           [0.84, 0.54, 0.01, 1.  ]])
    """
    check_whole("sinusoidal_positions", "width", width)
    frequencies = 10000.0 ** (-np.arange(0, width, 2) / width)       # (C/2,)
    angles = np.asarray(positions)[:, None] * frequencies            # (T, C/2)
    table = np.empty((len(angles), width), dtype)
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles[:, : width // 2])
    return table
