"""Compile a kernel when it is first called: once for each precision, and once per machine."""

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

STRICT = dict(error_model="numpy", nogil=True)  # division by zero gives Inf or NaN, as in NumPy
_lock = threading.RLock()

if hasattr(os, "register_at_fork"):     # fork after a compilation, or the child deadlocks
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def inlined(function):
    """A part of a kernel. Products and sums may fuse (`contract`); the rest follows IEEE 754."""
    return numba.njit(fastmath={"contract"}, **STRICT)(function)


def always_inlined(function):
    """A large part of a kernel, split off for its reader alone: the compiler puts it in place."""
    return numba.njit(fastmath={"contract"}, forceinline=True, **STRICT)(function)


def reduction(function):
    """A sum, as a part of a kernel: its order is free (`reassoc`), so that it vectorizes."""
    return numba.njit(fastmath={"contract", "reassoc", "nsz"}, **STRICT)(function)


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
        folder = cache_folder() if cached else None
        folder = folder and folder / f"{self.function.__name__}-{dtype.name}"
        if notice and (folder is None or not any(folder.rglob("*.nbc"))):
            _announce("as there is no cache" if folder is None else "once per machine")
        if folder is not None:
            before = numba.config.CACHE_DIR
            try:
                numba.config.CACHE_DIR = str(folder)
                return numba.njit(types, cache=True, **STRICT)(self.function)
            except Exception:           # a damaged cache, a full disk: compile without a cache
                pass
            finally:
                numba.config.CACHE_DIR = before
        return numba.njit(types, **STRICT)(self.function)


@lru_cache(maxsize=1)
def _announce(why):
    """Print a notice, once: the other kernels follow soon."""
    print(f"numformer: compiling kernels, {why}: 10 s, 20 for all of them",
          file=sys.stderr, flush=True)


def cache_folder():
    """The folder of compiled kernels, named by a hash of their sources; None if there can be none.

    A compiled kernel is code that runs when it is loaded, so the folder must belong to this user,
    and a folder that others may write to is not used. The environment variable NUMFORMER_CACHE
    names another location; empty, it turns the cache off.
    """
    home = os.environ.get("NUMFORMER_CACHE", _default_home())
    if not home:
        return None
    try:
        folder = Path(home).expanduser().resolve() / f"kernels-{_content()}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        if hasattr(os, "getuid"):
            if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o022:
                return None
        probe = folder / f".{os.getpid()}-{threading.get_ident()}-{time.monotonic_ns()}"
        probe.touch()
        probe.unlink()
    except (OSError, RuntimeError):
        return None
    return folder


def _default_home():
    try:
        base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
        base = base or Path.home() / ".cache"
    except RuntimeError:                # no home directory
        return None
    return Path(base) / "numformer"


def _content():
    """A hash of the kernels' sources and location, of Python, Numba and NumPy, and of the CPU."""
    versions = f"{platform.python_version()} {numba.__version__} {np.__version__}"
    digest = hashlib.sha256(f"{versions} {get_host_cpu_name()} {__file__}".encode())
    for source in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]
