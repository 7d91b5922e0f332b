"""Our own matrix product, compiled, through the interface of BLAS."""

import ctypes
import itertools

import numpy as np
import pytest

pytest.importorskip("numba")
from numformer.kernels.runtime import blas, own_product  # noqa: E402  (needs Numba)

BOTH = list(itertools.product([False, True], repeat=2))
SHAPES = [(1, 1, 1), (8, 48, 1), (7, 47, 5), (9, 49, 7), (16, 16, 512), (3, 32, 513), (17, 65, 16),
          (24, 96, 1025), (64, 128, 96), (13, 145, 8), (0, 5, 4), (5, 0, 4), (65, 17, 0)]


def stored(x, transposed, rng):
    """(x or its transpose in a wider matrix, the numbers from row to row)."""
    x = x.T if transposed else x
    wide = rng.standard_normal((len(x), x.shape[1] + 3)).astype(x.dtype)
    wide[:, :x.shape[1]] = x
    return wide, wide.shape[1]


def call(address, a, b, c, sizes, transposed=(False, False), alpha=1.0, beta=0.0):
    """c = alpha a b + beta c, by columns: c' = b' a'; a, b and c are pairs as from `stored`."""
    M, N, K = sizes
    real = {np.dtype(np.float32): ctypes.c_float, np.dtype(np.float64): ctypes.c_double}[c[0].dtype]
    kinds = [b"T" if which else b"N" for which in reversed(transposed)]
    number, data = (lambda n: ctypes.byref(ctypes.c_int(n))), lambda x: ctypes.c_void_p(
        x.ctypes.data)
    ctypes.CFUNCTYPE(None)(address)(
        *kinds, number(N), number(M), number(K), ctypes.byref(real(alpha)), data(b[0]),
        number(b[1]), data(a[0]), number(a[1]), ctypes.byref(real(beta)), data(c[0]), number(c[1]))


@pytest.mark.parametrize("transposed", BOTH)
@pytest.mark.parametrize("M, N, K", SHAPES)
def test_it_is_the_product_of_both_matrices(M, N, K, transposed, rng):
    """Not further from that in float64 than SciPy's library, and nothing else is written."""
    a, b, c = (rng.standard_normal(shape).astype(np.float32) for shape in ((M, K), (K, N), (M, N)))
    given = [stored(x, which, rng) for x, which in zip((a, b), transposed)]
    for alpha, beta in ((1, 0), (1, 1), (-0.5, 0), (-0.5, 1)):
        results = []
        for address in (own_product.SGEMM.address, blas.get_cython_function_address(
                "scipy.linalg.cython_blas", "sgemm")):
            place = stored(c if beta else np.full_like(c, np.nan), False, np.random.default_rng(0))
            before = place[0].copy()
            call(address, *given, place, (M, N, K), transposed, alpha, beta)
            assert np.array_equal(place[0][:, N:], before[:, N:])
            results.append(place[0][:, :N])
        exact = alpha * (a.astype(float) @ b) + beta * c
        scale = abs(alpha) * (abs(a).astype(float) @ abs(b)) + beta * abs(c) + 1e-30
        ours, scipys = (np.max(abs(result - exact) / scale, initial=0) for result in results)
        assert ours <= max(2 * scipys, 2 * np.finfo(np.float32).eps)


def test_nan_and_inf_stay_where_they_belong(rng):
    a, b = rng.standard_normal((9, 5), np.float32), rng.standard_normal((5, 50), np.float32)
    a[8, 2], b[3, 49] = np.nan, np.inf
    c = np.empty((9, 50), np.float32)
    call(own_product.SGEMM.address, (a, 5), (b, 50), (c, 50), (9, 50, 5))
    assert np.isnan(c[8]).all() and np.isinf(c[:8, 49]).all() and np.isfinite(c[:8, :49]).all()


@pytest.mark.parametrize("transposed", BOTH)
def test_bits_do_not_depend_on_what_else_is_computed(transposed, rng):
    """A number of c has the same bits in a product of one row and one column."""
    a, b = rng.standard_normal((19, 600), np.float32), rng.standard_normal((600, 70), np.float32)
    sides = [x.T.copy() if which else x for x, which in zip((a, b), transposed)]
    whole = np.empty((19, 70), np.float32)
    call(own_product.SGEMM.address, *((x, x.shape[1]) for x in sides), (whole, 70), (19, 70, 600),
         transposed)
    for i, j in ((0, 0), (7, 47), (8, 48), (18, 69), (17, 20)):
        one = np.empty((1, 1), np.float32)
        call(own_product.SGEMM.address, (a[i].copy(), 600), (b[:, j].copy(), 1), (one, 1),
             (1, 1, 600))
        assert one[0, 0] == whole[i, j]
