"""Sinusoidal positions on a grid: half of the coordinates for the row, half for the column."""

import numpy as np

from numformer.checks import check_whole
from numformer.functional.positions.sinusoidal import sinusoidal_positions


def sinusoidal_positions_2d(rows, columns, width, dtype=np.float64):
    r"""The sinusoids of the row in the first half of the coordinates, of the column in the second.

    .. math:: P_{(r, c)} = [\, S_r,\; S_c \,], \qquad
              S = \text{`sinusoidal_positions` of width } C / 2

    Two patches of one row agree in the first half, two of one column in the second.

    Parameters
    ----------
    rows, columns : int
    width : int
        C, even.
    dtype : float32 or float64
        The angles are computed in float64.

    Returns
    -------
    ndarray, shape (rows * columns, C)
        Row by row, in the order of `patches`.

    Raises
    ------
    ValueError
        If the width is odd, or there are no rows or columns.

    References
    ----------
    Vaswani et al. (2017), section 3.5, for each axis separately; one half for each axis:
    Dosovitskiy et al. (2021), appendix D.4.

    Examples
    --------
    >>> sinusoidal_positions_2d(2, 2, 4).round(2)
    array([[0.  , 1.  , 0.  , 1.  ],
           [0.  , 1.  , 0.84, 0.54],
           [0.84, 0.54, 0.  , 1.  ],
           [0.84, 0.54, 0.84, 0.54]])
    """
    check_positions_2d("sinusoidal_positions_2d", rows, columns, "width", width)
    of_rows = sinusoidal_positions(np.arange(rows), width // 2, dtype)           # (rows, C/2)
    of_columns = sinusoidal_positions(np.arange(columns), width // 2, dtype)     # (columns, C/2)
    of_rows = np.repeat(of_rows, columns, axis=0)        # each row's vector for all its columns
    of_columns = np.tile(of_columns, (rows, 1))
    return np.concatenate([of_rows, of_columns], axis=1)             # (rows * columns, C)


def check_positions_2d(owner, rows, columns, name, width):
    """Check the sizes of a grid, and that the width can be halved."""
    for what, size in (("rows", rows), ("columns", columns), (name, width)):
        check_whole(owner, what, size)
    if width % 2:
        raise ValueError(
            f"{owner}: {name}={width} must be even, because one half is for the row and one for "
            f"the column; use {width + 1}.")
