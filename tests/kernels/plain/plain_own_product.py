"""Our own product as plain Python: parts of the sums, panels, tiles, and the edges of all three."""

import numpy as np
import plain_python
import pytest

from numformer.kernels.runtime import memory, own_product

ROWS, LANES, WIDTH, TERMS = 4, 2, 6, 5


def tile_of(rows):
    """`multiply_tile`, with `rows` rows, and `multiply_one_row`."""
    def multiply(vectors, a, a_row, a_term, panel, terms, alpha, c, c_row, add):
        like = np.float32(0)
        assert 1 <= vectors <= WIDTH // LANES
        numbers = plain_python.matrix_at(panel, terms, vectors * LANES, vectors * LANES, like)
        for i in range(rows):
            total = np.zeros(vectors * LANES)
            for k in range(terms):
                address = a + i * a_row + k * a_term
                total += plain_python.matrix_at(address, 1, 1, 1, like)[0, 0] * numbers[k]
            c_i = plain_python.matrix_at(c + i * c_row, 1, vectors * LANES, 1, like)[0]
            c_i[...] = alpha * total + (c_i if add else 0)

    return multiply


@pytest.fixture(autouse=True)
def small(monkeypatch):
    for name, value in dict(
            MOST_ROWS=ROWS, LANES=LANES, WIDTH=WIDTH, PANEL_BYTES=4 * WIDTH, MOST_TERMS=TERMS,
            multiply_tile=tile_of(ROWS), multiply_one_row=tile_of(1), row=lambda x, i: x[i],
            start_of=lambda x: x.ctypes.data, matrix_at=plain_python.matrix_at,
            transpose=memory.transpose).items():
        assert hasattr(own_product, name)
        monkeypatch.setattr(own_product, name, value)


@pytest.mark.parametrize("a_transposed", [False, True])
@pytest.mark.parametrize("b_transposed", [False, True])
@pytest.mark.parametrize("M", [1, 3, 4, 6, 9])
@pytest.mark.parametrize("N", [1, 2, 5, 6, 7, 10, 13])
@pytest.mark.parametrize("K", [0, 1, 5, 6, 12])
def test_every_number_of_the_product_is_written_once(M, N, K, b_transposed, a_transposed, rng):
    a, b = rng.integers(-9, 9, (M, K)), rng.integers(-9, 9, (K, N))

    def stored(x, transposed):
        wide = np.full((x.shape[::-1] if transposed else x.shape) + np.array([1, 2]), np.nan,
                       np.float32)
        wide[:-1, :-2] = x.T if transposed else x
        return wide

    sides = stored(b, b_transposed), stored(a, a_transposed)
    workspace, tile = np.full((TERMS, WIDTH), 7, np.float32), np.full((ROWS, WIDTH), 7, np.float32)
    for add, alpha in ((False, 1), (True, 1), (True, 2)):
        c = stored(rng.integers(-9, 9, (M, N)) if add else np.full((M, N), np.nan), False)
        wanted = alpha * (a @ b) + (c[:-1, :-2] if add else 0)
        own_product.multiply(
            b_transposed, a_transposed, N, M, K, np.float32(alpha), sides[0].ctypes.data,
            sides[0].shape[1], sides[1].ctypes.data, sides[1].shape[1], add, c.ctypes.data,
            c.shape[1], workspace, tile)
        assert np.array_equal(c[:-1, :-2], wanted)                  # whole numbers: exact
        assert np.isnan(c[-1]).all() and np.isnan(c[:, -2:]).all()
