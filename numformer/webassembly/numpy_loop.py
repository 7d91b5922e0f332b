"""NumPy's inner loop of matmul, replaced by ours and back, in Pyodide.

NumPy lets a program replace the loop of a ufunc for some dtypes (PyUFunc_ReplaceLoopBySignature of
its C API). A loop is a function of C; in WebAssembly its address is an index of a table, into which
JavaScript can put a function of another module that works on the same memory.
"""

import sys
from functools import lru_cache
from pathlib import Path

import numpy as np

from numformer.webassembly.assembler import assemble

DEPTH = 256                                           # rows of b that are packed at a time
WORKSPACE = 128 + 32 * DEPTH                          # bytes
WORDS = {dtype: {"VECTOR": vector, "SCALAR": scalar, "BITS": str(8 * size), "SIZE": str(size),
                 "WIDTH": str(32 // size)}
         for dtype, vector, scalar, size in (("float32", "f32x4", "f32", 4),
                                             ("float64", "f64x2", "f64", 8))}
REPLACE = 30                                          # its place in NumPy's table of functions


class Unavailable(Exception):
    """There can be no such loop here; the text says why."""


def module_of(dtype):
    """The bytes of the module for a dtype, "float32" or "float64".

    Examples
    --------
    >>> module_of("float32")[:4]
    b'\\x00asm'
    """
    text = Path(__file__).with_name("product.wat").read_text("utf-8")
    for word, value in {**WORDS[dtype], "DEPTH": str(DEPTH)}.items():
        text = text.replace(word, value)
    return assemble(text)


def set_loops(ours):
    """Let NumPy multiply float32 and float64 with our loops, or with its own again.

    Raises
    ------
    Unavailable
        If this is not Pyodide, its browser has no vectors, or the loops do not give what they must.
    """
    for dtype, (own, other) in loops().items():
        _replace(dtype, other if ours else own)


@lru_cache(maxsize=1)
def loops():
    """{dtype: (NumPy's loop, ours)}, as addresses; ours have been tried."""
    if sys.platform != "emscripten":
        raise Unavailable("only in a browser's Python, Pyodide")
    try:
        return {dtype: _tried(dtype) for dtype in WORDS}
    except Exception as error:                        # of another Pyodide, or without vectors
        raise Unavailable(f"{type(error).__name__}: {error}") from None


def _tried(dtype):
    """(NumPy's loop, ours), which gives the same numbers; NumPy has its own again."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((2, 7, DEPTH + 3)).astype(dtype)
    b = rng.standard_normal((DEPTH + 3, 9)).astype(dtype)
    expected, other = a @ b, _address(dtype)
    own = _replace(dtype, other)
    try:
        found = a @ b
    finally:
        _replace(dtype, own)
    if not np.allclose(found, expected, rtol=1e-4, atol=1e-4):
        raise ValueError(f"its products of {dtype} are wrong")
    return own, other


def _address(dtype):
    """The address of our loop for a dtype: its place in the table of Pyodide's functions."""
    import pyodide_js
    from js import Object, WebAssembly
    from pyodide.ffi import to_js

    ours = pyodide_js._module
    imports = {"numpy": {
        "memory": getattr(ours, "wasmMemory", None) or ours.memory,
        "workspace": ours._malloc(WORKSPACE)}}
    imports = to_js(imports, dict_converter=Object.fromEntries)
    module = WebAssembly.Module.new(to_js(module_of(dtype)))
    return ours.addFunction(WebAssembly.Instance.new(module, imports).exports.loop, "viiii")


def _replace(dtype, loop):
    """Let NumPy use a loop for a dtype; the one that it has used so far."""
    import ctypes

    from numpy._core import _multiarray_umath

    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(address(_multiarray_umath._UFUNC_API, None),
                        ctypes.POINTER(ctypes.c_void_p))
    replace = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.py_object, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int),
        ctypes.POINTER(ctypes.c_void_p))(table[REPLACE])
    kinds, before = (ctypes.c_int * 3)(*3 * [np.dtype(dtype).num]), ctypes.c_void_p()
    if replace(np.matmul, loop, kinds, ctypes.byref(before)) != 0:
        raise ValueError(f"NumPy has no loop for {dtype}")
    return before.value
