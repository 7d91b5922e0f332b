"""The kernels as plain Python: their loops without Numba, for the mutation run (tests/mutate.py).

What is not Python (addresses, atomic steps, BLAS) is replaced here by functions of the same
meaning. Tiles are small, so that small arrays have ragged ones. Once the replacements are in place,
test_compiled_equals_reference.py runs on plain Python too. To run all of it alone:

    NUMBA_DISABLE_JIT=1 python -m pytest tests/kernels/plain/plain_*.py \
        tests/kernels/test_compiled_equals_reference.py
"""

import ctypes
import os

import numpy as np
import pytest

if os.environ.get("NUMBA_DISABLE_JIT") != "1":                  # Numba reads it at its import
    pytest.skip("needs NUMBA_DISABLE_JIT=1", allow_module_level=True)
from numformer.functional import from_bfloat16
from numformer.kernels import (
    activations, adam, cross_entropy, dropout, embedding, feed_forward, few_vectors,
    gated_feed_forward, head_projections, linear, linear_cross_entropy, linear_rows, norms,
    residual_norm, rotary)
from numformer.kernels.attention import backward, flash, forward, scores, softmax, tiles
from numformer.kernels.attention import dropout as attention_dropout
from numformer.kernels.decoding import attention as decoding_attention
from numformer.kernels.decoding import pack, panels, phases, run, token_step
from numformer.kernels.runtime import arithmetic, hashing, memory, work_queue


def product(factor, a, b, c, add):
    c[...] = factor * (a @ b) + (c if add else 0)


def transpose_block(x, i, d, xt):
    xt[d:d + 8, i:i + 8] = x[i:i + 8, d:d + 8].T


def matrix_view(workspace, n, rows, columns):
    return workspace[n:].reshape(-1)[:rows * columns].reshape(rows, columns)


def matrix_at(address, rows, columns, stride, like):
    if rows * columns == 0:
        return np.zeros((rows, columns), like.dtype)
    size = like.itemsize
    buffer = (ctypes.c_char * (((rows - 1) * stride + columns) * size)).from_address(int(address))
    return np.ndarray((rows, columns), like.dtype, buffer, strides=(stride * size, size))


def exchange(queue, n, value):
    before, queue[n] = queue[n], value
    return before


def add(queue, n, value):
    queue[n] += value
    return queue[n] - value


def exp(x):
    return arithmetic._exp32(x) if x.dtype == np.float32 else np.exp(x)


def tanh(x):
    return arithmetic._tanh32(x) if x.dtype == np.float32 else np.tanh(x)


def normal_cdf_and_density(x):
    return activations._normal32(x) if x.dtype == np.float32 else activations._normal64(x)


def tile_of(rows):
    """`multiply_8` and so on: some rows of x times one panel at an address."""
    def multiply(kind, x, i, start, terms, panel, scale, bias, y, j, column, add):
        width = panels.PANEL_BYTES // x.itemsize
        bias = matrix_at(bias, 1, width, width, x)[0]
        like = {panels.SAME: x, panels.BFLOAT16: np.uint16(0), panels.INT8: np.int8(0)}[kind]
        numbers = matrix_at(panel, terms, width, width, like)
        if kind == panels.BFLOAT16:
            numbers = from_bfloat16(numbers)
        total = x[i:i + rows, start:start + terms] @ numbers
        if kind == panels.INT8:
            total *= matrix_at(scale, 1, width, width, x)[0]
        total += bias
        assert total.shape == (rows, width)
        before = y[j:j + rows, column:column + width]
        before[...] = total + before if add else total

    return multiply


REPLACEMENTS = {
    "unowned": lambda x: x, "row": lambda x, i: x[i], "matrix_view": matrix_view,
    "matrix_at": matrix_at, "transpose_block": transpose_block, "_exchange": exchange, "_add": add,
    "product": product, "gemm": lambda a, b, c, add: product(1, a, b, c, add), "exp": exp,
    "tanh": tanh, "normal_cdf_and_density": normal_cdf_and_density,
    "tile_size": lambda T, S, D: (9, 6), "POLLS": 3, "EXTRA_POLLS": 2,
    **{f"multiply_{rows}": tile_of(rows) for rows in (1, 2, 4, 8)}, "MOST_ROWS": 8,
    "PANEL_BYTES": 32, "BLOCK": 5, "SLICE": 4, "MOST_TOKENS": 14,
    "NORM_ROWS": 3, "LANES": 3, "give_way": lambda: None}
MODULES = (
    activations, adam, arithmetic, attention_dropout, backward, cross_entropy, decoding_attention,
    dropout, embedding, feed_forward, few_vectors, flash, forward, gated_feed_forward, hashing,
    head_projections, linear, linear_cross_entropy, linear_rows, memory, norms, pack, panels,
    phases, residual_norm, rotary, run, scores, softmax, tiles, token_step, work_queue)
for module in MODULES:
    for name, replacement in REPLACEMENTS.items():
        of_arithmetic = module is arithmetic and name in ("product", "gemm")    # see plain_blas.py
        if hasattr(module, name) and not of_arithmetic:
            setattr(module, name, replacement)
