"""Weights in fewer bits, as `numformer.functional.quantization` rounds them, to the bit.

A generation begins with it, so it must not take as long as many tokens.
"""

import numpy as np
from numba import int8, types, uint16, uint32

from numformer.kernels.runtime.arithmetic import larger
from numformer.kernels.runtime.compile import Kernel
from numformer.kernels.runtime.memory import row, unowned
from numformer.kernels.runtime.shapes import matrix, out_vector

INT8_LARGEST = 127


def pack_int8(x, smallest, codes, scale):
    """codes = round(x / scale), with scale = max |x| / 127 for each column of x (K, F).

    A column whose largest number is not above `smallest` has scale 1. Returns whether all numbers
    are finite.
    """
    x, codes, zero = unowned(x), unowned(codes), x.dtype.type(0)
    largest, one = x.dtype.type(INT8_LARGEST), x.dtype.type(1)
    for f in range(len(scale)):
        scale[f] = zero
    for k in range(len(x)):
        x_k = row(x, k)
        for f in range(len(scale)):
            # zero times x is NaN for NaN and Inf, and stays in the largest
            scale[f] = larger(abs(x_k[f]), scale[f]) + zero * x_k[f]
    finite = True
    for f in range(len(scale)):
        finite &= scale[f] - scale[f] == zero
        scale[f] = scale[f] / largest if scale[f] > smallest else one
    if finite:
        for k in range(len(x)):
            x_k, codes_k = row(x, k), row(codes, k)
            for f in range(len(scale)):
                codes_k[f] = int8(np.rint(x_k[f] / scale[f]))
    return finite


def pack_bfloat16(x, codes):
    """codes = the upper halves of x (K, F) as float32, rounded to the nearest, ties to even."""
    x, codes = unowned(x), unowned(codes)
    for k in range(len(x)):
        x_k, codes_k = row(x, k), row(codes, k)
        for f in range(x.shape[1]):
            bits = uint32(np.float32(x_k[f]).view(np.uint32))
            odd = uint32((bits >> uint32(16)) & uint32(1))
            above = uint32(uint32(bits + uint32(0x7FFF) + odd) >> uint32(16))
            codes_k[f] = uint16(above) if x_k[f] == x_k[f] else uint16(0x7FC0)


def _codes(item):
    """The type of some columns of a panel: rows are contiguous."""
    return types.Array(item, 2, "A")


PACK_INT8 = Kernel(pack_int8, lambda real: (matrix(real), real, _codes(int8), out_vector(real)))
PACK_BFLOAT16 = Kernel(pack_bfloat16, lambda real: (matrix(real), _codes(uint16)))


def packed_int8(x, codes, scale):
    """Write `to_int8` of x (K, F) into codes and scale.

    Raises
    ------
    ValueError
        If x holds NaN or Inf.
    """
    x = np.ascontiguousarray(x)
    smallest = x.dtype.type(np.finfo(x.dtype).tiny * INT8_LARGEST)
    if not PACK_INT8[x.dtype](x, smallest, codes, scale):
        raise ValueError("to_int8: the weight holds NaN or Inf; such a model writes no text.")


def packed_bfloat16(x, codes):
    """Write `to_bfloat16` of x (K, F) into codes."""
    PACK_BFLOAT16[x.dtype](np.ascontiguousarray(x), codes)
