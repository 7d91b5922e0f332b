"""The weights of a decoder as a table of addresses, and products with parts of a matrix."""

from numformer.kernels.linear import add_weighted_rows
from numformer.kernels.runtime.compile import inlined
from numformer.kernels.runtime.memory import matrix_at, row

PARTS = 4                               # into which every product is split
NAMES = (                               # the columns of the table: one row for each block
    "norm1_weight", "norm1_bias", "query", "query_bias", "key", "key_bias", "value", "value_bias",
    "query_norm_weight", "key_norm_weight", "output", "output_bias", "norm2_weight", "norm2_bias",
    "gate", "gate_bias", "hidden", "hidden_bias", "down", "down_bias")
(NORM1_WEIGHT, NORM1_BIAS, QUERY, QUERY_BIAS, KEY, KEY_BIAS, VALUE, VALUE_BIAS,
 QUERY_NORM_WEIGHT, KEY_NORM_WEIGHT, OUTPUT, OUTPUT_BIAS, NORM2_WEIGHT, NORM2_BIAS,
 GATE, GATE_BIAS, HIDDEN, HIDDEN_BIAS, DOWN, DOWN_BIAS) = range(len(NAMES))
EPSILON1, EPSILON2, QUERY_EPSILON, KEY_EPSILON = range(4)
FINAL_WEIGHT, FINAL_BIAS, HEAD = range(3)
KEYS, VALUES, CAPACITY = range(3)


def addresses(arrays):
    """The addresses of arrays, 0 for None."""
    return [0 if array is None else array.ctypes.data for array in arrays]


@inlined
def vector_at(address, start, stop, x):
    """Numbers start .. stop - 1 of the vector at an address; an empty one if the address is 0."""
    length = stop - start if address != 0 else 0
    return row(matrix_at(address + start * x.itemsize, 1, length, 1, x), 0)


@inlined
def multiply_part(x, address, start, stop, y):
    """y = x W, from the elements start .. stop - 1 of x and those rows of the W at an address."""
    zero, width = y.dtype.type(0), len(y)
    for f in range(width):
        y[f] = zero
    rows = matrix_at(address + start * width * x.itemsize, stop - start, width, width, x)
    add_weighted_rows(x[start:stop], rows, y)


@inlined
def add_parts(sums, start, bias, y):
    """y = b + the sums of all parts, from column `start` on."""
    for f in range(len(y)):
        total = bias[f] if len(bias) > 0 else y.dtype.type(0)
        for part in range(PARTS):
            total += sums[part, start + f]
        y[f] = total
