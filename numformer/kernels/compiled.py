"""Compile a kernel when it is first called: once for float32, once for float64, and once per machine."""

import hashlib
import os
import platform
import stat
import sys
import threading
import time
from functools import lru_cache
from pathlib import Path

import numba
import numpy as np
from llvmlite.binding import get_host_cpu_name

STRICT = dict(error_model="numpy", nogil=True)                        # division by zero gives Inf or NaN, as in NumPy
_lock = threading.RLock()

if hasattr(os, "register_at_fork"):                                   # a fork waits for a compilation: its child would wait for ever
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def inlined(function):
    """A part of a kernel. Its products and sums may fuse (`contract`); nothing else may change what IEEE 754 says."""
    return numba.njit(fastmath={"contract"}, **STRICT)(function)


def summing(function):
    """A sum, as a part of a kernel: its order is free (`reassoc`), so that it vectorizes."""
    return numba.njit(fastmath={"contract", "reassoc", "nsz"}, **STRICT)(function)


class Kernel:
    """A function that Numba compiles for each precision when that is first asked for.

    Parameters
    ----------
    function : callable
        Plain loops over arrays.
    signature : callable
        Makes the types of the arguments from the type of a real number. They are the same for arrays of any strides,
        so nothing is compiled twice.

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
        """The compiled function for one precision; from the cache where it is there, and where `cached` lets it."""
        dtype = np.dtype(dtype)
        types = tuple(self.signature(numba.from_dtype(dtype)))
        folder = cache_folder() if cached else None
        folder = folder and folder / f"{self.function.__name__}-{dtype.name}"
        if notice and (folder is None or not any(folder.rglob("*.nbc"))):
            _tell("as there is no cache" if folder is None else "once per machine")
        if folder is not None:
            before = numba.config.CACHE_DIR
            try:
                numba.config.CACHE_DIR = str(folder)
                return numba.njit(types, cache=True, **STRICT)(self.function)
            except Exception:                                         # a damaged cache, a full disk: the kernel itself may be well
                pass
            finally:
                numba.config.CACHE_DIR = before
        return numba.njit(types, **STRICT)(self.function)


@lru_cache(maxsize=1)
def _tell(why):
    """Said once: the others follow soon."""
    print(f"numformer: compiling kernels, {why}: 10 s, 20 for all of them", file=sys.stderr, flush=True)


def cache_folder():
    """Where compiled kernels are kept: a folder of this user alone, named by what was compiled; None if there can be none.

    A compiled kernel is code that runs when it is loaded, so a folder that others may write to is not used. The
    environment variable NUMFORMER_CACHE names another place; empty, it means no cache.
    """
    home = os.environ.get("NUMFORMER_CACHE", _default_home())
    if not home:
        return None
    try:
        folder = Path(home).expanduser().resolve() / f"kernels-{_content()}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        if hasattr(os, "getuid") and (status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o022):
            return None
        probe = folder / f".{os.getpid()}-{threading.get_ident()}-{time.monotonic_ns()}"
        probe.touch()
        probe.unlink()
    except (OSError, RuntimeError):
        return None
    return folder


def _default_home():
    try:
        base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    except RuntimeError:                                              # no home
        return None
    return Path(base) / "numformer"


def _content():
    """A name that changes with the kernels' sources and their place, with Python, Numba, NumPy and the processor."""
    digest = hashlib.sha256(f"{platform.python_version()} {numba.__version__} {np.__version__} {get_host_cpu_name()} {__file__}".encode())
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]
