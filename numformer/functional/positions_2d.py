"""Where a patch stands in an image: its row and its column, half of the width for each."""

import numpy as np

from numformer.checks import check_whole
from numformer.functional.positions import sinusoidal_positions


def sinusoidal_positions_2d(rows, columns, width, dtype=np.float64):
    r"""The sinusoids of the row in the first half of the coordinates, those of the column in the second.

    .. math:: P_{(r, c)} = [\, S_r,\; S_c \,], \qquad S = \text{`sinusoidal_positions` of width } C / 2

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
        Row by row, as `patches` has it.

    Raises
    ------
    ValueError
        If the width is odd, or there are no rows or columns.

    References
    ----------
    Vaswani et al. (2017), section 3.5, for each axis by itself; the halves are those of Dosovitskiy et al. (2021), appendix D.4.

    Examples
    --------
    >>> sinusoidal_positions_2d(2, 2, 4).round(2)
    array([[0.  , 1.  , 0.  , 1.  ],
           [0.  , 1.  , 0.84, 0.54],
           [0.84, 0.54, 0.  , 1.  ],
           [0.84, 0.54, 0.84, 0.54]])
    """
    check_positions_2d("sinusoidal_positions_2d", rows, columns, "width", width)
    of_rows, of_columns = (sinusoidal_positions(np.arange(n), width // 2, dtype) for n in (rows, columns))
    return np.concatenate([np.repeat(of_rows, columns, axis=0), np.tile(of_columns, (rows, 1))], axis=1)


def check_positions_2d(owner, rows, columns, name, width):
    """Check the sizes of a grid, and that the width can be halved."""
    for what, size in (("rows", rows), ("columns", columns), (name, width)):
        check_whole(owner, what, size)
    if width % 2:
        raise ValueError(f"{owner}: {name}={width} must be even, for one half is the row's and one the column's; use {width + 1}.")
