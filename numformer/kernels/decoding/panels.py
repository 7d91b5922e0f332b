"""Weights packed as panels: copies in the order in which a product reads them.

A panel holds a few columns of a matrix W (K, F), row after row, (K, width): a product with some
rows of x reads it from the beginning to the end, once for all rows, and has all its sums in
registers. The last panel is filled up with zeros. Each matrix has a bias as long as its panels,
zeros if there is none.

The numbers of a panel may be smaller than those of x: see `numformer.functional.quantization`.
"""

import numpy as np

from numformer.kernels.decoding.pack import packed_bfloat16, packed_int8, packed_same
from numformer.kernels.runtime.compile import inlined
from numformer.kernels.runtime.memory import matrix_at, row
from numformer.kernels.runtime.shapes import has_rows
from numformer.kernels.runtime.vectors import (
    BFLOAT16, INT8, MOST_ROWS, PANEL_BYTES, SAME, multiply_1, multiply_2, multiply_4, multiply_8)
from numformer.kernels.runtime.workspace import new_array

KINDS = {None: (SAME, None), "bfloat16": (BFLOAT16, np.dtype(np.uint16)),
         "int8": (INT8, np.dtype(np.int8))}
BLOCK = 64                              # rows that stay in the cache while a panel is read


class Panels:
    """Matrices (K, F1), (K, F2), ... side by side as panels, with their biases.

    Parameters
    ----------
    matrices : list of ndarray, shape (K, F)
    biases : list of (ndarray of shape (F,), or None)
    weights : "bfloat16" or "int8", optional
        How the numbers of the panels are stored; as they are, unless given.
    """

    def __init__(self, matrices, biases, weights=None):
        dtype = matrices[0].dtype
        self.kind, store = KINDS[weights]
        width = PANEL_BYTES // dtype.itemsize
        self.columns = sum(matrix.shape[1] for matrix in matrices)
        count, K = -(-self.columns // width), len(matrices[0])
        self.bias = np.zeros(count * width, dtype)
        self.scale = np.ones(count * width, dtype)
        self.numbers = new_array((count, K, width), store or dtype)
        if self.columns < count * width:
            self.numbers[-1] = 0
        first = 0
        for matrix, bias in zip(matrices, biases):
            last = first + matrix.shape[1]
            if bias is not None:
                self.bias[first:last] = bias
            # of a transposed matrix the columns of a panel are copied first: they stay in the cache
            step = matrix.shape[1] if has_rows(matrix) else width
            for start in range(first, last, step):
                stop = min(start + step, last)
                self._pack(matrix[:, start - first:stop - first], start, self.scale[start:stop])
            first = last

    def _pack(self, columns, first, scale):
        if self.kind == SAME:
            packed_same(columns, first, self.numbers)
        elif self.kind == BFLOAT16:
            packed_bfloat16(columns, first, self.numbers)
        else:
            packed_int8(columns, first, self.numbers, scale)


@inlined
def vector_at(address, length, x):
    """The vector of this length at an address; an empty one if the address is 0."""
    return row(matrix_at(address, 1, length if address != 0 else 0, 1, x), 0)


@inlined
def multiply_panel(kind, x, first, last, start, terms, panel, scale, bias, y, j, column, add):
    """y = x panel * scale + bias, or y += that: rows first .. last - 1 of x, in tiles of rows.

    Of x the columns start .. start + terms - 1; of y the rows from j on, and the columns of one
    panel from `column` on.
    """
    i = first
    while last - i >= MOST_ROWS:
        multiply_8(kind, x, i, start, terms, panel, scale, bias, y, i - first + j, column, add)
        i += MOST_ROWS
    if last - i >= 4:
        multiply_4(kind, x, i, start, terms, panel, scale, bias, y, i - first + j, column, add)
        i += 4
    if last - i >= 2:
        multiply_2(kind, x, i, start, terms, panel, scale, bias, y, i - first + j, column, add)
        i += 2
    if last > i:
        multiply_1(kind, x, i, start, terms, panel, scale, bias, y, i - first + j, column, add)


@inlined
def multiply_unit(kind, item_bytes, x, rows, unit, terms, matrix, y, add):
    """One unit of y = x W + b, or y += that: a block of the rows of x times one panel of W.

    `matrix` has the addresses of W's panels, scale and bias. Units of a panel follow each other.
    """
    blocks, size = row_blocks(rows), x.itemsize
    panel, block = unit // blocks, unit % blocks
    first, last = rows * block // blocks, rows * (block + 1) // blocks
    column = panel * panel_columns(size)
    multiply_panel(kind, x, first, last, 0, terms, matrix[0] + column * terms * item_bytes,
                   matrix[1] + column * size, matrix[2] + column * size, y, first, column, add)


@inlined
def product_units(rows, columns, size):
    """The number of units of a product: (blocks of rows) x (panels)."""
    return row_blocks(rows) * (whole_panels(columns, size) // panel_columns(size))


@inlined
def whole_panels(columns, size):
    """So many columns, rounded up to whole panels."""
    width = panel_columns(size)
    return (columns + width - 1) // width * width


@inlined
def row_blocks(rows):
    return (rows + BLOCK - 1) // BLOCK


@inlined
def panel_columns(size):
    return PANEL_BYTES // size
