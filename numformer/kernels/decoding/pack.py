"""The columns of a matrix, written into panels: as they are, or in fewer bits.

Fewer bits are rounded as `numformer.functional.quantization` rounds them, to the bit. A generation
begins with it, so it must not take as long as many tokens: one call packs a whole matrix, and reads
it row after row, in the order in which it is in memory.
"""

import numpy as np
from numba import int8, int64, uint16, uint32

from numformer.kernels.runtime.arithmetic import larger
from numformer.kernels.runtime.compile import Kernel, inlined
from numformer.kernels.runtime.memory import row, unowned
from numformer.kernels.runtime.shapes import out_matrix, out_vector, strided_matrix, with_rows

INT8_LARGEST = 127


@inlined
def part_of_panel(panels, K, k, column, last):
    """Row k of the panel that has this column: the part from there on, before column `last`."""
    width = panels.shape[1]
    panel, start = column // width, column % width
    return row(panels, panel * K + k)[start:min(width, last - panel * width)]


def pack_same(x, first, panels):
    """Copy x (K, F) into the columns first .. first + F - 1 of panels (panels K, width)."""
    x, panels = unowned(x), unowned(panels)
    K, F = x.shape
    for k in range(K):
        x_k, f = row(x, k), 0
        while f < F:
            part = part_of_panel(panels, K, k, first + f, first + F)
            x_part = x_k[f:f + len(part)]
            for n in range(len(part)):
                part[n] = x_part[n]
            f += len(part)


def pack_bfloat16(x, first, panels):
    """`pack_same` of the upper halves of x as float32, rounded to the nearest, ties to even."""
    x, panels = unowned(x), unowned(panels)
    K, F = x.shape
    for k in range(K):
        x_k, f = row(x, k), 0
        while f < F:
            part = part_of_panel(panels, K, k, first + f, first + F)
            x_part = x_k[f:f + len(part)]
            for n in range(len(part)):
                single = np.float32(x_part[n])
                bits = uint32(single.view(np.uint32))
                # a float64 goes to the float32 next to it that ends in a one bit: see the reference
                bits = uint32(uint32(bits - uint32(abs(single) > abs(x_part[n])))
                              | uint32(single != x_part[n]))
                odd = uint32((bits >> uint32(16)) & uint32(1))
                above = uint32(uint32(bits + uint32(0x7FFF) + odd) >> uint32(16))
                part[n] = uint16(above) if x_part[n] == x_part[n] else uint16(0x7FC0)
            f += len(part)


def pack_int8(x, smallest, first, panels, scale):
    """`pack_same` of round(x / scale), with scale (F,) = max |x| / 127 for each column of x.

    A column whose largest number is not above `smallest` has scale 1. Returns whether all numbers
    are finite; if not, nothing is packed.
    """
    x, panels, zero = unowned(x), unowned(panels), x.dtype.type(0)
    largest, one = x.dtype.type(INT8_LARGEST), x.dtype.type(1)
    K, F = x.shape
    for f in range(F):
        scale[f] = zero
    for k in range(K):
        x_k = row(x, k)
        for f in range(F):
            # zero times x is NaN for NaN and Inf, and stays in the largest
            scale[f] = larger(abs(x_k[f]), scale[f]) + zero * x_k[f]
    finite = True
    for f in range(F):
        finite &= scale[f] - scale[f] == zero
        scale[f] = scale[f] / largest if scale[f] > smallest else one
    f = 0
    while finite and f < F:             # panel after panel: x is in the cache now
        count = len(part_of_panel(panels, K, 0, first + f, first + F))
        s = scale[f:f + count]
        for k in range(K):
            part = part_of_panel(panels, K, k, first + f, first + F)
            x_part = row(x, k)[f:f + count]
            for n in range(count):
                part[n] = int8(np.rint(x_part[n] / s[n]))
        f += count
    return finite


PACK_SAME = Kernel(pack_same, lambda real: (strided_matrix(real), int64, out_matrix(real)))
PACK_BFLOAT16 = Kernel(
    pack_bfloat16, lambda real: (strided_matrix(real), int64, out_matrix(uint16)))
PACK_INT8 = Kernel(pack_int8, lambda real: (
    strided_matrix(real), real, int64, out_matrix(int8), out_vector(real)))


def packed_same(x, first, panels):
    """Write x (K, F) into panels (panels, K, width), from column `first` of them all on."""
    PACK_SAME[x.dtype](with_rows(x), first, _rows(panels))


def packed_bfloat16(x, first, panels):
    """`packed_same` of `to_bfloat16` of x."""
    PACK_BFLOAT16[x.dtype](with_rows(x), first, _rows(panels))


def packed_int8(x, first, panels, scale):
    """`packed_same` of `to_int8` of x, whose scale (F,) is written, too.

    Raises
    ------
    ValueError
        If x holds NaN or Inf.
    """
    smallest = x.dtype.type(np.finfo(x.dtype).tiny * INT8_LARGEST)
    if not PACK_INT8[x.dtype](with_rows(x), smallest, first, _rows(panels), scale):
        raise ValueError("to_int8: the weight holds NaN or Inf; such a model writes no text.")


def _rows(panels):
    """The rows of all panels, one panel after the other."""
    return panels.reshape(-1, panels.shape[2])
