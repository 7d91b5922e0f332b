"""Two-dimensional positions: half of the coordinates for the row of a patch, half for its column.
"""

import numpy as np

from numformer.description import Description
from numformer.functional import sinusoidal_positions_2d
from numformer.functional.positions.two_dimensional import check_positions_2d
from numformer.layers.positions.added import AddedPositions
from numformer.parameter import normal


class SinusoidalPositions2D(AddedPositions):
    """Add fixed sinusoids of row and column to the patches of images: `sinusoidal_positions_2d`.

    There are no parameters.

    Parameters
    ----------
    rows, columns : int
        Of patches; T is their product.
    d_model : int
        C, even.

    Raises
    ------
    ValueError
        If C is odd, or `x` has another T or C.

    Examples
    --------
    >>> SinusoidalPositions2D(1, 2, 4)(np.zeros((1, 2, 4))).round(2)
    array([[[0.  , 1.  , 0.  , 1.  ],
            [0.  , 1.  , 0.84, 0.54]]])
    """

    def __init__(self, rows, columns, d_model):
        check_positions_2d("SinusoidalPositions2D", rows, columns, "d_model", d_model)
        self.rows, self.columns, self.d_model = rows, columns, d_model

    @property
    def width(self):
        return self.d_model

    def vectors(self, T, start, dtype):
        _check_grid("SinusoidalPositions2D", T, start, self.rows, self.columns)
        p = sinusoidal_positions_2d(self.rows, self.columns, self.d_model, dtype)      # (T, C)

        saved = ()
        return p, saved

    def describe(self):
        return Description("+ Sinusoidal positions", "of row and column", (r"dx = dy",))


class LearnedPositions2D(AddedPositions):
    r"""Add a trained vector for the row and one for the column to the patches of images.

    .. math:: y_{(r, c)} = x_{(r, c)} + [\, R_r,\; S_c \,]

    Parameters
    ----------
    rows, columns : int
        Of patches; T is their product.
    d_model : int
        C, even.
    rng : numpy.random.Generator or None
    std : float
        Of the initial vectors.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If C is odd, or `x` has another T or C.

    References
    ----------
    Dosovitskiy et al. (2021), "An Image Is Worth 16x16 Words", appendix D.4.

    Examples
    --------
    >>> LearnedPositions2D(2, 3, 8, np.random.default_rng(0))
    LearnedPositions2D(row=(2, 4), column=(3, 4))
    """

    def __init__(self, rows, columns, d_model, rng, std=0.02, dtype=np.float32):
        check_positions_2d("LearnedPositions2D", rows, columns, "d_model", d_model)
        self.row = normal(rng, (rows, d_model // 2), std, dtype)
        self.column = normal(rng, (columns, d_model // 2), std, dtype)

    @property
    def width(self):
        return 2 * self.row.data.shape[1]

    @property
    def dtype(self):
        return self.row.data.dtype

    def vectors(self, T, start, dtype):
        row, column = self.row.data, self.column.data
        _check_grid("LearnedPositions2D", T, start, len(row), len(column))
        p = np.concatenate([np.repeat(row, len(column), axis=0),
                            np.tile(column, (len(row), 1))], axis=1)           # (T, C)

        saved = ()
        return p, saved

    def vectors_backward(self, dp, saved):
        rows, half = self.row.data.shape

        # y = x + p, in every image
        dp = dp.sum(axis=0).reshape(rows, -1, 2 * half)               # (rows, columns, C)

        # p = concatenate([repeat(row), tile(column)])
        self.row.grad += dp[..., :half].sum(axis=1)
        self.column.grad += dp[..., half:].sum(axis=0)

    def describe(self):
        return Description("+ Learned positions", f"{len(self.row.data)} rows, "
                           f"{len(self.column.data)} columns", (
                               r"dx = dy", r"dR_r = \Sigma_{b,c} dy_{brc}",
                               r"dS_c = \Sigma_{b,r} dy_{brc}"))


def _check_grid(owner, T, start, rows, columns):
    if T != rows * columns or np.any(start):
        raise ValueError(f"{owner}: x must hold all patches from the first to the last, "
                         f"T={rows * columns} in {rows} rows and {columns} columns, but T={T} "
                         f"from start={start} came.")
