"""What the kernels compute with: functions that vectorize, and BLAS's matrix product on tiles."""

import math

import numba
import numpy as np
from numba import types
from numba.extending import overload

from numformer.kernels.runtime.blas import dgemm, sgemm, tile_dgemm, tile_sgemm
from numformer.kernels.runtime.compile import PART, inlined
from numformer.kernels.runtime.memory import address_of, address_of_element, matrix_view, row

CONTRACT = dict(fastmath={"contract"}, **PART)
real32, int32, int8 = np.float32, np.int32, np.int8

# exp(x) = 2**n exp(r), with n = round(x / ln 2) and r = x - n ln 2; ln 2 is split into two parts so
# that r is exact: Cody and Waite (1980), chapter 6. exp(r) = 1 + r + r**2 P(r), with our own
# least-squares fit at Chebyshev nodes: 1 ulp on -86 .. 0.
LOG2_E, LN2_HIGH = real32(1 / math.log(2)), real32(0.693359375)
LN2_LOW = real32(math.log(2) - 0.693359375)
E0, E1, E2, E3, E4 = map(real32, (
    5.0000000135e-01, 1.6666576823e-01, 4.1666464572e-02, 8.3632054675e-03, 1.3933688358e-03))
ROUND = real32(1.5 * 2**23)             # x + ROUND - ROUND is x rounded to n; its bits end in n
SMALLEST = real32(-86)                  # exp(-86) = 4.5e-38; below, float32 loses precision

# tanh(x) = x + x**3 Q(x**2) below 0.625, fitted in the same way: 1.5 ulp
T0, T1, T2, T3, T4 = map(real32, (
    -3.3333329136e-01, 1.3332783496e-01, -5.3852611053e-02, 2.1004028921e-02, -6.1053891267e-03))


def exp(x):
    """e to the x, for x at most 0 up to rounding; NaN stays NaN, and -Inf gives exactly 0."""


@overload(exp, jit_options=CONTRACT)
def _exp(x):
    return _exp32 if x == types.float32 else lambda x: math.exp(x)


def _exp32(x):
    rounded = x * LOG2_E + ROUND
    n = rounded - ROUND
    r = x - n * LN2_HIGH
    r = r - n * LN2_LOW
    y = (((E4 * r + E3) * r + E2) * r + E1) * r + E0
    y = y * (r * r) + r + real32(1)
    exponent = (real32(rounded).view(np.int32) + int32(127)) << int32(23)
    power = int32(exponent).view(np.float32)                # 2**n, by its bits
    return real32(0) if x < SMALLEST else y * power


def tanh(x):
    """Hyperbolic tangent."""


@overload(tanh, jit_options=CONTRACT)
def _tanh(x):
    return _tanh32 if x == types.float32 else lambda x: math.tanh(x)


def _tanh32(x):
    e = exp(real32(-2) * abs(x))
    large = math.copysign((real32(1) - e) / (real32(1) + e), x)
    z = x * x
    small = x + x * z * ((((T4 * z + T3) * z + T2) * z + T1) * z + T0)
    return small if abs(x) < real32(0.625) else large


_PLAIN, _TRANSPOSED = map(ord, "NT")
MAX_TERMS = 96                          # one sum over a wide head would have errors twice as large


@numba.njit(**PART)
def product(factor, a, b, c, add):
    """c = factor a b, or c += factor a b with `add`, for tiles that are in the cache.

    BLAS adds at most MAX_TERMS terms at a time. The matrices are as in `gemm`.
    """
    terms = a.shape[1]
    parts = -(-terms // MAX_TERMS)
    for part in range(parts):
        start, stop = terms * part // parts, terms * (part + 1) // parts
        _multiply(True, factor, a, b, c, add or part > 0, start, stop)


@numba.njit(**PART)
def gemm(a, b, c, add):
    """c = a b, or c += a b with `add`.

    The rows of `c` are contiguous. So are those of `a` and of `b`, or each is the transposed view
    of such a matrix.
    """
    _multiply(False, c.dtype.type(1), a, b, c, add, 0, a.shape[1])


@inlined
def _multiply(tile, factor, a, b, c, add, start, stop):
    """c = factor a[:, start:stop] b[start:stop], or c += that.

    BLAS stores matrices by columns, so it computes c' = b' a'.
    """
    a_kind, a_stride = _form(a)
    b_kind, b_stride = _form(b)
    c_stride, keep = max(c.strides[0] // c.itemsize, c.shape[1]), c.dtype.type(add)
    _gemm(tile, c.itemsize, address_of(b_kind), address_of(a_kind), address_of(int32(c.shape[1])),
          address_of(int32(c.shape[0])), address_of(int32(stop - start)), address_of(factor),
          address_of_element(b, start, 0), address_of(b_stride),
          address_of_element(a, 0, start), address_of(a_stride),
          address_of(keep), address_of_element(c, 0, 0), address_of(int32(c_stride)))


@inlined
def _form(x):
    """How BLAS reads a matrix: transposed or not, and the numbers from one of its rows to the next.

    Where a matrix has one row or one column, its strides may be anything.
    """
    rows, columns = x.shape
    if x.strides[1] != x.itemsize and columns > 1:
        return int8(_TRANSPOSED), int32(max(x.strides[1] // x.itemsize, rows))
    return int8(_PLAIN), int32(max(x.strides[0] // x.itemsize, columns))


@inlined
def _gemm(tile, itemsize, *arguments):
    if itemsize == 4:
        if tile:
            tile_sgemm(*arguments)
        else:
            sgemm(*arguments)
    elif tile:
        tile_dgemm(*arguments)
    else:
        dgemm(*arguments)


@numba.njit(fastmath={"contract", "reassoc"}, **PART)     # the order of the sum is free
def all_finite(x):
    """Whether a contiguous matrix holds neither NaN nor Inf."""
    x = row(matrix_view(x, 0, 1, x.size), 0)
    zero = total = x.dtype.type(0)
    for n in range(len(x)):
        total += zero * x[n]                                # NaN for NaN and Inf
    return total == zero


@inlined
def larger(x, y):
    """The larger of two numbers; with a NaN either one, for the sum of exponentials shows it."""
    return x if x > y else y
