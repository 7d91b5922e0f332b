"""A matrix product of our own for float32, called in the same way as those of BLAS libraries.

Three loops around a tile of sums in registers, as in Goto and van de Geijn (2008), "Anatomy of
High-Performance Matrix Multiplication":

    for at most 512 terms of each sum:
        for at most 48 columns of b, copied into a panel, which stays in the cache:
            for 8 rows of a:
                a tile of c, 8 x 48 sums: for each term, 8 numbers of a times a row of the panel

So a number of the panel is loaded once for 8 rows, and one of a once for 48 columns. Copying takes
1/M as long as multiplying by M rows. A sum is one chain of additions for each 512 terms, in their
order: its bits depend neither on the size of the matrices nor on where they begin.
"""

import numba
import numpy as np
from numba import types

from numformer.kernels.runtime.compile import CFunction, inlined
from numformer.kernels.runtime.memory import (
    address_at, local_matrix, matrix_at, row, start_of, transpose)
from numformer.kernels.runtime.vectors import (
    MOST_ROWS, PANEL_BYTES, VECTOR_BYTES, multiply_one_row, multiply_tile)

SIZE = 4                                # bytes of a number
WIDTH, LANES = PANEL_BYTES // SIZE, VECTOR_BYTES // SIZE
MOST_TERMS = 512
TRANSPOSED = ord("T")


@inlined
def copy_panel(b, transposed, first, last, start, stop, panel):
    """panel = b[start:stop, first:last]; what is in its further columns does not matter."""
    if transposed:
        transpose(b[first:last, start:stop], panel)
    else:
        for k in range(start, stop):
            b_k, panel_k = row(b, k)[first:last], row(panel, k - start)
            for j in range(last - first):
                panel_k[j] = b_k[j]


@inlined
def multiply_panel(a, a_row, a_term, panel, vectors, alpha, c, add, tile):
    """c = alpha a panel, or c += that, for c (M, columns): in tiles, at last row by row.

    Where c has fewer columns than the vectors of the panel, the sums go to `tile` first.
    """
    M, columns = c.shape
    whole, terms = columns == vectors * LANES, len(panel)
    for i in range(0, M, MOST_ROWS):
        rows, a_i = min(MOST_ROWS, M - i), a + i * a_row
        to = c[i:i + rows] if whole else matrix_at(start_of(tile), rows, columns, WIDTH, tile)
        to_row = to.strides[0]
        if rows == MOST_ROWS:
            multiply_tile(vectors, a_i, a_row, a_term, start_of(panel), terms, alpha, start_of(to),
                          to_row, add and whole)
        else:
            for r in range(rows):
                multiply_one_row(vectors, a_i + r * a_row, a_row, a_term, start_of(panel), terms,
                                 alpha, start_of(to) + r * to_row, to_row, add and whole)
        if not whole:
            for r in range(rows):
                c_r, to_r = row(c, i + r), row(to, r)
                for j in range(columns):
                    c_r[j] = to_r[j] + (c_r[j] if add else tile.dtype.type(0))


@inlined
def multiply(b_transposed, a_transposed, N, M, K, alpha, b, b_stride, a, a_stride, add, c, c_stride,
             workspace, tile):
    """c = alpha a b, or c += that, for a (M, K), b (K, N) and c (M, N), all at addresses.

    Of a transposed factor, the transpose is stored. Strides are in numbers, from a row of what is
    stored to the next. `workspace` (MOST_TERMS, WIDTH) holds a panel, `tile` (MOST_ROWS, WIDTH) the
    tiles at the right edge of c.
    """
    stored = matrix_at(b, N if b_transposed else K, K if b_transposed else N, b_stride, tile)
    a_row, a_term = (SIZE, a_stride * SIZE) if a_transposed else (a_stride * SIZE, SIZE)
    parts = max(1, (K + MOST_TERMS - 1) // MOST_TERMS)      # of about equal size
    for part in range(parts):
        start, stop = K * part // parts, K * (part + 1) // parts
        for first in range(0, N, WIDTH):
            last = min(first + WIDTH, N)
            vectors = (last - first + LANES - 1) // LANES
            panel = matrix_at(start_of(workspace), stop - start, vectors * LANES, vectors * LANES,
                              tile)
            copy_panel(stored, b_transposed, first, last, start, stop, panel)
            multiply_panel(a + start * a_term, a_row, a_term, panel, vectors, alpha,
                           matrix_at(c + first * SIZE, M, last - first, c_stride, tile),
                           add or part > 0, tile)


def sgemm(b_kind, a_kind, N, M, K, alpha, b, b_stride, a, a_stride, beta, c, c_stride):
    """BLAS's sgemm, with beta 0 or 1. It stores matrices by columns: so it is c' = b' a'."""
    one = numba.carray(alpha, 1, np.float32)
    workspace, tile = local_matrix(MOST_TERMS, WIDTH, one), local_matrix(MOST_ROWS, WIDTH, one)
    multiply(numba.carray(b_kind, 1, np.uint8)[0] == TRANSPOSED,
             numba.carray(a_kind, 1, np.uint8)[0] == TRANSPOSED,
             numba.carray(N, 1, np.int32)[0], numba.carray(M, 1, np.int32)[0],
             numba.carray(K, 1, np.int32)[0], one[0],
             address_at(b), numba.carray(b_stride, 1, np.int32)[0],
             address_at(a), numba.carray(a_stride, 1, np.int32)[0],
             numba.carray(beta, 1, np.float32)[0] != 0,
             address_at(c), numba.carray(c_stride, 1, np.int32)[0], workspace, tile)


SGEMM = CFunction(sgemm, types.void(*13 * [types.voidptr]))
