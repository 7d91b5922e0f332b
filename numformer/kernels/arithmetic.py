"""What the kernels reckon with: functions that vectorize, and BLAS's matrix product on tiles."""

import math

import numba
import numpy as np
import scipy.linalg.cython_blas  # noqa: F401  (the BLAS that Numba looks up when it first multiplies)
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from numba.np.arrayobj import populate_array

from numformer.kernels.compiled import STRICT, inlined

CONTRACT = dict(fastmath={"contract"}, **STRICT)
real32, int32 = np.float32, np.int32

# exp(x) = 2**n exp(r), with n = round(x / ln 2) and r = x - n ln 2, ln 2 in two parts so that r is exact: Cody and Waite
# (1980), chapter 6. exp(r) = 1 + r + r**2 P(r) with our own least-squares fit at Chebyshev nodes: 1 ulp on -86 .. 0.
LOG2_E, LN2_HIGH, LN2_LOW = real32(1 / math.log(2)), real32(0.693359375), real32(math.log(2) - 0.693359375)
E0, E1, E2, E3, E4 = map(real32, (5.0000000135e-01, 1.6666576823e-01, 4.1666464572e-02, 8.3632054675e-03, 1.3933688358e-03))
ROUND = real32(1.5 * 2**23)                                           # x + ROUND - ROUND is x rounded; its bits end in n
LEAST = real32(-86)                                                   # exp(-86) = 4.5e-38: a little below, float32 loses precision

# tanh(x) = x + x**3 Q(x**2) below 0.625, fitted in the same way: 1.5 ulp
T0, T1, T2, T3, T4 = map(real32, (-3.3333329136e-01, 1.3332783496e-01, -5.3852611053e-02, 2.1004028921e-02, -6.1053891267e-03))


def exp(x):
    """e to the x, for x that is not above 0 by more than rounding; NaN stays NaN, and -Inf gives exactly 0."""


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
    power = int32((real32(rounded).view(np.int32) + int32(127)) << int32(23)).view(np.float32)        # 2**n, by its exponent
    return real32(0) if x < LEAST else y * power


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


_gemm = types.ExternalFunction("numba_xxgemm", types.intc(            # Numba's own door to the BLAS that SciPy brings
    types.int8, types.int8, types.int8, types.intp, types.intp, types.intp, types.voidptr, types.voidptr, types.intp,
    types.voidptr, types.intp, types.voidptr, types.voidptr, types.intp))
_S, _D, _N, _T = map(ord, "sdNT")


@numba.njit(**STRICT)
def product(factor, a, b, keep, c):
    """c = factor a b + keep c, by BLAS.

    `b` and `c` have contiguous rows; `a` has, or it is the transposed view of a matrix that has. BLAS counts by columns, so
    it is told c' = b' a'. Factors are arrays of one number.
    """
    size = c.itemsize
    turned = a.strides[1] != size and a.shape[1] > 1
    a_row = max(a.strides[1] // size, a.shape[0]) if turned else max(a.strides[0] // size, a.shape[1])
    _gemm(_S if size == 4 else _D, _N, _T if turned else _N, c.shape[1], c.shape[0], a.shape[1], factor.ctypes,
          b.ctypes, b.strides[0] // size, a.ctypes, a_row, keep.ctypes, c.ctypes, c.strides[0] // size)


@intrinsic
def borrow(context, array):
    """The same array without its reference counter, for which threads that slice one array would fight; the caller keeps it alive."""
    def generate(context, builder, signature, arguments):
        view = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0])
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        view.parent = cgutils.get_null_value(view.parent.type)
        return view._getvalue()

    return array(array), generate


@intrinsic
def row(context, x, i):
    """Row i of a matrix whose rows are contiguous, and known to the compiler as such: only then does a loop along it vectorize."""
    line = types.Array(x.dtype, 1, "C")

    def generate(context, builder, signature, arguments):
        view = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0])
        found = context.make_array(line)(context, builder)
        length, stride = cgutils.unpack_tuple(builder, view.shape)[1], cgutils.unpack_tuple(builder, view.strides)[0]
        size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(x.dtype)))
        start = cgutils.pointer_add(builder, view.data, builder.mul(arguments[1], stride))
        populate_array(found, start, shape=[length], strides=[size], itemsize=size, meminfo=None)
        return found._getvalue()

    return line(x, types.intp), generate


@inlined
def transpose(x, xt):
    """Copy (I, D) into (D, I), four rows at a time: what they have of a column is written in one piece."""
    I, D = x.shape
    for i in range(0, I - 3, 4):
        x_0, x_1, x_2, x_3 = row(x, i), row(x, i + 1), row(x, i + 2), row(x, i + 3)
        for d in range(D):
            xt_d = row(xt, d)
            xt_d[i], xt_d[i + 1], xt_d[i + 2], xt_d[i + 3] = x_0[d], x_1[d], x_2[d], x_3[d]
    for i in range(I // 4 * 4, I):
        for d in range(D):
            xt[d, i] = x[i, d]


@inlined
def all_finite(x):
    bad = False
    for i in range(x.shape[0]):
        x_i = row(x, i)
        for d in range(x.shape[1]):
            bad |= not abs(x_i[d]) < np.inf
    return not bad


@inlined
def clear(x):
    """Write zeros into x."""
    zero = x.dtype.type(0)
    for i in range(x.shape[0]):
        x_i = row(x, i)
        for d in range(x.shape[1]):
            x_i[d] = zero


@inlined
def copy(x, y):
    """Copy x into y."""
    for i in range(x.shape[0]):
        x_i, y_i = row(x, i), row(y, i)
        for d in range(x.shape[1]):
            y_i[d] = x_i[d]
