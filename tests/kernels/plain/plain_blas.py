"""How the kernels call BLAS: sizes, strides and transposition, and the terms of each sum."""

import math

import numpy as np
import plain_python  # noqa: F401  (puts the replacements in place)
import pytest

from numformer.kernels.runtime import arithmetic


@pytest.fixture
def blas(monkeypatch):
    """A gemm by BLAS's definition, by columns, in the memory behind an element.

    Returns the number of terms of each call.
    """
    calls = []

    def matrix_of(element, shape, strides):
        array, i, j = element
        strides = [array.itemsize * step for step in strides]
        return np.lib.stride_tricks.as_strided(array[i:, j:], shape, strides)

    def gemm(kind, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
        transposed = trans_b == ord("T")
        assert kind == ord("s" if c[0].dtype == np.float32 else "d")
        assert trans_a == ord("N") and trans_b in (ord("N"), ord("T"))
        assert lda >= m and ldc >= m and ldb >= (n if transposed else k), "BLAS refuses these"
        left, result = matrix_of(a, (m, k), (1, lda)), matrix_of(c, (m, n), (1, ldc))
        right = matrix_of(b, (k, n), (ldb, 1) if transposed else (1, ldb))
        result[...] = alpha * (left @ right) + (beta * result if beta else 0)
        assert beta.dtype == result.dtype
        calls.append(k)

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

    lefts = [matrix(R, K), matrix(R, K + 3)[:, :K], matrix(K, R).T, matrix(K, R + 2)[:, :R].T]
    if K == 1:                          # a single column may have any stride
        strides = [size * np.dtype(dtype).itemsize for size in (5, 3)]
        lefts.append(np.lib.stride_tricks.as_strided(matrix(R, 5), (R, 1), strides))
    tolerance = 1e-4 if dtype == np.float32 else 1e-11
    for a in lefts:
        for b, whole in ((matrix(K, C), matrix(R, C)), (matrix(K, C + 2)[:, :C], matrix(R, C + 5))):
            c, before = whole[:, :C], whole.copy()
            for add in (True, False):
                if not add:
                    c[...] = np.nan
                wanted = a.astype(float) @ b
                arithmetic.product(dtype(0.3), a, b, c, add)
                np.testing.assert_allclose(c, 0.3 * wanted + before[:, :C] * add,
                                           rtol=tolerance, atol=tolerance)
                assert sum(blas) == K and len(blas) == math.ceil(K / 96)
                assert max(blas) - min(blas) <= 1
                blas.clear()
                c[...] = before[:, :C] if add else np.nan
                arithmetic.gemm(a, b, c, add)
                np.testing.assert_allclose(c, wanted + before[:, :C] * add,
                                           rtol=tolerance, atol=tolerance)
                assert blas == [K]
                blas.clear()
                c[...] = before[:, :C]
            assert np.array_equal(whole, before), "nothing is written outside of c"
