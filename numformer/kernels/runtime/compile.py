"""Compile a kernel when it is first called: once for each precision, and once per machine."""

import os
import sys
import threading
from contextlib import nullcontext
from functools import cached_property

import numba
import numpy as np
from numba.core import event

from numformer.kernels.runtime.cache import discard_unsealed, find_cache, seal, usable
from numformer.terminal import printable, shortened

# Division by zero gives Inf or NaN, as in NumPy; no C function is made in addition to Python's
STRICT = dict(error_model="numpy", nogil=True, no_cfunc_wrapper=True)
# A part is called by kernels alone: without a function for Python a fifth less is compiled
PART = dict(STRICT, no_cpython_wrapper=True)
_lock = threading.RLock()

if hasattr(os, "register_at_fork"):     # fork after a compilation, or the child deadlocks
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def inlined(function):
    """A part of a kernel. Products and sums may fuse (`contract`); the rest follows IEEE 754.

    Only kernels can call it; in Python there is its `py_func`.
    """
    return numba.njit(fastmath={"contract"}, **PART)(function)


def unfused(function):
    """A part, put in place, in which nothing fuses: every operation is rounded, as in NumPy.

    So equal terms cancel to 0. For a vector of 32 numbers a call would take as long as its loops.
    Left open, `fastmath` would be that of the part that needs it first.
    """
    return numba.njit(fastmath=False, forceinline=True, **PART)(function)


def always_inlined(function):
    """A large part of a kernel, split off for its reader alone: the compiler puts it in place."""
    return numba.njit(fastmath={"contract"}, forceinline=True, **PART)(function)


def reduction(function):
    """A sum, as a part of a kernel: its order is free (`reassoc`), so that it vectorizes."""
    return numba.njit(fastmath={"contract", "reassoc", "nsz"}, **PART)(function)


class Kernel:
    """A function that Numba compiles for each precision when it is first used.

    Parameters
    ----------
    function : callable
        Plain loops over arrays.
    signature : callable
        Makes the types of the arguments from the type of a real number. They are the same for
        arrays of any strides, so nothing is compiled twice.

    Examples
    --------
    >>> def double(x):
    ...     for i in range(len(x)):
    ...         x[i] *= 2
    >>> kernel, x = Kernel(double, lambda real: (real[:],)), np.arange(3.0)
    >>> kernel[x.dtype](x)
    >>> x
    array([0., 2., 4.])
    """

    def __init__(self, function, signature):
        self.function, self.signature = function, signature
        self.compiled = {}

    def __getitem__(self, dtype):
        if dtype not in self.compiled:
            with _lock:
                if dtype not in self.compiled:
                    self.compiled[dtype] = self.compile(dtype)
        return self.compiled[dtype]

    def compile(self, dtype, cached=True, notice=True):
        """The compiled function for one precision, from the cache if it is there and `cached`."""
        dtype = np.dtype(dtype)
        types = tuple(self.signature(numba.from_dtype(dtype)))
        return _compiled(
            f"{self.function.__name__}-{dtype.name}", cached, notice,
            lambda **options: numba.njit(types, **options, **STRICT)(self.function))


class CFunction:
    """A function that Numba compiles for C, when its address is first wanted.

    Parameters
    ----------
    function : callable
    signature : numba.core.typing.Signature
    """

    def __init__(self, function, signature):
        self.function, self.signature = function, signature

    @cached_property
    def address(self):
        return self.compiled.address

    @cached_property
    def compiled(self):
        with _lock:
            return _compiled(
                f"{self.function.__name__}-c", True, True,
                lambda **options: numba.cfunc(self.signature, error_model="numpy", **options)(
                    self.function))


def _compiled(name, cached, notice, compile_with):
    """What ``compile_with(cache=True)`` returns, with a folder of the cache; else without one."""
    folder, why_not = find_cache() if cached else (None, "")
    try:
        folder = folder and usable(folder / name)
    except OSError as error:
        print(f"numformer: {error.filename or folder} cannot be used as a cache: {error.strerror}",
              file=sys.stderr, flush=True)
        folder = None
    if folder is not None:
        before = numba.config.CACHE_DIR
        try:
            numba.config.CACHE_DIR = str(folder)
            with _announcing("once per machine", notice):
                compiled = compile_with(cache=True)
            _seal(folder)
            return compiled
        except Exception as error:      # a damaged cache, a full disk: compile without a cache
            discard_unsealed(folder)
            why_not = getattr(error, "strerror", None) or str(error)
        finally:
            numba.config.CACHE_DIR = before
    with _announcing(f"as there is no cache{f' ({why_not})' if why_not else ''}", notice):
        return compile_with()


def _seal(folder):
    try:
        seal(folder)
    except (OSError, ValueError):                     # it is compiled again the next time
        discard_unsealed(folder)


def _announcing(why, notice):
    """Print a notice when Numba compiles inside, and does not read its cache."""
    return event.install_listener("numba:run_pass", _Notice(why)) if notice else nullcontext()


class _Notice(event.Listener):
    """Prints one line in a process: the other kernels follow soon."""

    is_printed = False

    def __init__(self, why):
        self.why = why

    def on_start(self, event):
        if not _Notice.is_printed:
            _Notice.is_printed = True
            print(shortened(printable(
                f"numformer: compiling kernels, {' '.join(self.why.split())}: 20 to 60 s before "
                "the first step")), file=sys.stderr, flush=True)

    def on_end(self, event):
        pass
