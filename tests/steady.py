"""The same surroundings for every test and doctest, whoever starts pytest, and where.

A plugin of pytest, which setup.cfg loads before anything of this project is imported:

- *Environment*: only the variables of `KEPT` get through. Time zone, language, width of the
  terminal and hash seed are fixed; the home folder is empty, as is the matplotlibrc.
- *Temporary folders*: their paths hold a space, as those of users do.
- *Signals*: those that the parent process ignores or blocks, as nohup does, have their usual effect
  in the processes that tests start.
- *Random numbers*: a generator without a seed, such as ``np.random.default_rng()``, starts from the
  same one in every test.
- *Memory*: garbage is collected rarely, and never what pytest itself holds.
- *State of the process*: what a test changes is put back after it, so that the order of tests, and
  the number of processes among which they are divided, make no difference.
- *Comparisons*: for ``np.testing.assert_allclose``, NaN equals NaN only where a test says so.
"""

import gc
import os
import pkgutil
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest

# Where programs, libraries and temporary files are; and switches of test runs
KEPT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV",
        "CONDA_PREFIX", "TMPDIR", "TMP", "TEMP", "SYSTEMROOT", "PATHEXT", "COMSPEC",
        "NUMBA_DISABLE_JIT")
KEPT_BEGINNINGS = ("PYTEST_", "COV_", "COVERAGE_")
FIXED = {"TZ": "UTC", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "COLUMNS": "80", "LINES": "24",
         "PYTHONHASHSEED": "0", "MPLBACKEND": "Agg", "NUMFORMER_BLAS": "openblas"}
HOME = "PYTEST_STEADY_HOME"             # the home folder of a run: that of all its processes
SEED = 20_000


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config):
    """Before conftest.py, which imports NumPy."""
    gc.disable()
    os.umask(0o022)
    set_environment(early_config)
    usual_signals()


def pytest_configure():
    """A function and its reference that are both wrong do not agree."""
    import numpy as np

    np.testing.assert_allclose = partial(np.testing.assert_allclose, equal_nan=False)


def pytest_collection_finish():
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    gc.enable()


def set_environment(config):
    """Fix the environment of this process, and so of those that it starts."""
    home, cache = os.environ.get(HOME), os.environ.get("NUMFORMER_CACHE")
    if home is None:
        home = tempfile.mkdtemp(prefix="home-")
        config.add_cleanup(lambda: shutil.rmtree(home, ignore_errors=True))
        cache = _cache() or os.path.join(home, "cache")
    for name in set(os.environ) - set(KEPT):
        if not name.startswith(KEPT_BEGINNINGS):
            del os.environ[name]
    os.environ.update(FIXED)
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", os.path.join(home, "a folder"))
    os.makedirs(os.environ["PYTEST_DEBUG_TEMPROOT"], exist_ok=True)
    os.environ.update({HOME: home, "HOME": home, "USERPROFILE": home, "NUMFORMER_CACHE": cache})
    if hasattr(time, "tzset"):
        time.tzset()


def _cache():
    """Where this user's compiled kernels are, if a folder can be there: compiling takes minutes."""
    try:
        base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
        folder = Path(os.environ.get("NUMFORMER_CACHE")
                      or Path(base or Path.home() / ".cache") / "numformer")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):     # read-only, or there is no home folder
        return None
    return str(folder) if os.access(folder, os.W_OK) else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(specs):
    """Before several processes run tests: compile the kernels once, not in each of them."""
    if len(specs) > 1:
        path = os.pathsep.join(filter(None, sys.path))
        for process in [subprocess.Popen([sys.executable, __file__, dtype],
                                         env={**os.environ, "PYTHONPATH": path},
                                         stderr=subprocess.DEVNULL)
                        for dtype in ("float32", "float64")]:
            process.wait()              # where this fails, tests will tell


def compile_kernels(dtype):
    """Compile all kernels for one precision, or load them from the cache."""
    import numpy as np

    from numformer import kernels
    from numformer.kernels.runtime.compile import Kernel

    for page in pkgutil.walk_packages(kernels.__path__, "numformer.kernels."):
        for kernel in vars(import_module(page.name)).values():
            if isinstance(kernel, Kernel):
                kernel[np.dtype(dtype)]


def usual_signals():
    """Nothing is ignored or blocked in processes that start from here, and nohup still holds."""
    if not hasattr(signal, "pthread_sigmask"):
        return
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
    for number in signal.valid_signals() - {signal.SIGPIPE}:         # Python's own choice
        if signal.getsignal(number) == signal.SIG_IGN:
            # A new program starts with the usual effect of what has a handler here
            signal.signal(number, {signal.SIGINT: signal.default_int_handler,
                                   signal.SIGHUP: lambda *_: None}.get(number, signal.SIG_DFL))


@pytest.fixture(autouse=True)
def same_state():
    """Random numbers from a fixed seed, and the state of the process as it was, after each test."""
    import numpy as np
    from numpy.random import bit_generator

    random.seed(SEED)
    np.random.seed(SEED)
    fresh, bit_generator.randbits = bit_generator.randbits, random.Random(SEED).getrandbits
    environment, folder = dict(os.environ), os.getcwd()
    style = dict(sys.modules["matplotlib"].rcParams) if "matplotlib" in sys.modules else None
    comparison = np.testing.assert_allclose
    with np.errstate(), np.printoptions():
        yield
    assert np.testing.assert_allclose is comparison, "after this test nothing would be compared"
    bit_generator.randbits = fresh
    if os.getcwd() != folder:
        os.chdir(folder)
    if os.environ != environment:
        os.environ.clear()
        os.environ.update(environment)
    if style is not None and sys.modules["matplotlib"].rcParams != style:
        sys.modules["matplotlib"].rcParams.update(style)


if __name__ == "__main__":
    compile_kernels(sys.argv[1])
