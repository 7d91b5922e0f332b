"""Layers that tell a model where its patches stand: half of the coordinates for the row, half for the column."""

import numpy as np

from numformer.checks import check_array
from numformer.functional.positions_2d import check_positions_2d, sinusoidal_positions_2d
from numformer.parameter import Layer, normal


class SinusoidalPositions2D(Layer):
    """Add fixed sinusoids of row and column to the patches of images, (B, T, C): `sinusoidal_positions_2d`. No parameters.

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

    def forward(self, x):
        check_array("SinusoidalPositions2D", "x", x, "(B, T, C)", T=self.rows * self.columns, C=self.d_model)
        y = x + sinusoidal_positions_2d(self.rows, self.columns, self.d_model, x.real.dtype)

        saved = ()
        return y, saved

    def backward(self, dy, saved):
        # y = x + constants
        return dy.copy()


class LearnedPositions2D(Layer):
    r"""Add a trained vector for the row and one for the column to the patches of images, (B, T, C).

    .. math:: y_{(r, c)} = x_{(r, c)} + [\, R_r,\; S_c \,]

    Parameters
    ----------
    rows, columns : int
        Of patches; T is their product.
    d_model : int
        C, even.
    rng : numpy.random.Generator or None
    std : float
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

    def forward(self, x):
        (rows, half), columns = self.row.data.shape, len(self.column.data)
        check_array("LearnedPositions2D", "x", x, "(B, T, C)", self.row.data.dtype, T=rows * columns, C=2 * half)
        table = np.concatenate([np.repeat(self.row.data, columns, axis=0), np.tile(self.column.data, (rows, 1))], axis=1)      # (T, C)
        y = x + table

        saved = ()
        return y, saved

    def backward(self, dy, saved):
        rows, half = self.row.data.shape

        # y = x + table
        dtable = dy.sum(axis=0).reshape(rows, -1, 2 * half)           # (rows, columns, C)

        # table = concatenate([repeat(row), tile(column)])
        self.row.grad += dtable[..., :half].sum(axis=1)
        self.column.grad += dtable[..., half:].sum(axis=0)
        return dy.copy()
