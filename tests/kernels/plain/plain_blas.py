"""How the kernels call BLAS: sizes, strides and transposition, and the terms of each sum."""

import itertools
import math

import numpy as np
import plain_python  # noqa: F401  (puts the replacements in place)
import pytest

from numformer.kernels.runtime import arithmetic


@pytest.fixture
def blas(monkeypatch):
    """A gemm by BLAS's definition, by columns, in the memory behind an element.

    Returns, for each call, whether it is one for tiles, and its number of terms.
    """
    calls = []

    def matrix_of(element, shape, strides):
        array, i, j = element
        strides = [array.itemsize * step for step in strides]
        return np.lib.stride_tricks.as_strided(array[i:, j:], shape, strides)

    def gemm(tile, size, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
        a_transposed, b_transposed = (kind == ord("T") for kind in (trans_a, trans_b))
        assert size == c[0].itemsize and {trans_a, trans_b} <= {ord("N"), ord("T")}
        assert lda >= (k if a_transposed else m) and ldb >= (n if b_transposed else k) and ldc >= m
        left = matrix_of(a, (m, k), (lda, 1) if a_transposed else (1, lda))
        right = matrix_of(b, (k, n), (ldb, 1) if b_transposed else (1, ldb))
        result = matrix_of(c, (m, n), (1, ldc))
        result[...] = alpha * (left @ right) + (beta * result if beta else 0)
        assert beta.dtype == result.dtype == alpha.dtype
        assert {type(x) for x in (trans_a, trans_b)} == {np.int8}
        assert {type(x) for x in (m, n, k, lda, ldb, ldc)} == {np.int32}
        calls.append((tile, k))

    monkeypatch.setattr(arithmetic, "_gemm", gemm)
    monkeypatch.setattr(arithmetic, "address_of", lambda x: x)
    monkeypatch.setattr(arithmetic, "address_of_element", lambda x, i, j: (x, i, j))
    return calls


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("R, K, C", [
    (1, 1, 1), (3, 1, 2), (1, 4, 3), (3, 2, 2), (3, 4, 1), (5, 96, 2), (2, 97, 3), (3, 192, 2),
    (2, 300, 4)])
def test_blas_multiplies_matrices_of_any_row_stride(R, K, C, dtype, rng, blas):
    """Also transposed; in sums of at most 96 terms of about equal size."""
    def matrix(rows, columns):
        return rng.standard_normal((rows, columns)).astype(dtype)

    def layouts(rows, columns):
        yield from (matrix(rows, columns), matrix(rows, columns + 3)[:, :columns],
                    matrix(columns, rows).T, matrix(columns, rows + 2)[:, :rows].T)
        size = np.dtype(dtype).itemsize
        if columns == 1:                # a single column may have any stride, and a single row too
            yield np.lib.stride_tricks.as_strided(matrix(rows, 5), (rows, 1), (5 * size, 3 * size))
        if rows == 1:
            yield np.lib.stride_tricks.as_strided(matrix(1, columns), (1, columns), (0, size))

    tolerance = 1e-4 if dtype == np.float32 else 1e-11
    for a in layouts(R, K):
        for b, whole in itertools.product(layouts(K, C), (matrix(R, C), matrix(R, C + 5))):
            c, before = whole[:, :C], whole.copy()
            for add in (True, False):
                if not add:
                    c[...] = np.nan
                wanted = a.astype(float) @ b
                arithmetic.product(dtype(0.3), a, b, c, add)
                np.testing.assert_allclose(c, 0.3 * wanted + before[:, :C] * add,
                                           rtol=tolerance, atol=tolerance)
                tiles, terms = zip(*blas)
                assert all(tiles) and sum(terms) == K and len(terms) == math.ceil(K / 96)
                assert max(terms) - min(terms) <= 1
                blas.clear()
                c[...] = before[:, :C] if add else np.nan
                arithmetic.gemm(a, b, c, add)
                np.testing.assert_allclose(c, wanted + before[:, :C] * add,
                                           rtol=tolerance, atol=tolerance)
                assert blas == [(False, K)]
                blas.clear()
                c[...] = before[:, :C]
            assert np.array_equal(whole, before), "nothing is written outside of c"


@pytest.mark.parametrize("tile", [True, False])
@pytest.mark.parametrize("itemsize", [4, 8])
def test_each_precision_has_a_routine_for_tiles_and_one_for_other_products(
        tile, itemsize, monkeypatch):
    called = []
    for name in ("sgemm", "dgemm", "tile_sgemm", "tile_dgemm"):
        monkeypatch.setattr(arithmetic, name, lambda *arguments, name=name:
                            called.append((name, arguments)))
    arithmetic._gemm(tile, itemsize, 1, 2)
    assert called == [(f"{'tile_' * tile}{'s' if itemsize == 4 else 'd'}gemm", (1, 2))]
