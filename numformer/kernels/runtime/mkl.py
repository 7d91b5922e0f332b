"""Intel's MKL, where the package `mkl` is installed: where it is, and how it must be set.

MKL is one library, `mkl_rt`, which loads the rest of itself at the first product. Before that it is
set in two ways:

- *sequential*: a product runs on the thread that calls it (`backend/pool.py` says why);
- *reproducible* ("conditional numerical reproducibility"): the bits of a product do not depend on
  where in memory its matrices begin. It costs nothing that could be measured here.
"""

import ctypes
import os
import re
import sys
from importlib import metadata
from pathlib import Path

from numformer.blas_threads import blas_controllers

FILE = re.compile(r"(lib)?mkl_rt(\.\d+)*\.(so|dylib|dll)(\.\d+)*")
NEEDED = ("mkl_core", "mkl_sequential")               # without them MKL ends the process
SEQUENTIAL = 1                                        # constants of MKL's mkl_service.h
INTEGERS_OF_64_BITS = 1
BRANCH, REPRODUCIBLE = 1, 2                           # "MKL_CBWR_AUTO"


def find_mkl():
    """(the path of MKL's library, its version); None where the package is not installed."""
    try:
        version, files = metadata.version("mkl"), metadata.files("mkl") or []
    except metadata.PackageNotFoundError:             # conda keeps no such record of it
        version, files = "", []
    folders = [Path(sys.prefix, "lib"), Path(sys.prefix, "Library", "bin")]
    paths = [Path(file.locate()) for file in files]
    paths += [path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir())]
    for path in paths:
        if FILE.fullmatch(path.name):
            return path.resolve(), version
    return None


def load_mkl(path):
    """The addresses of MKL's products: {"sgemm": address, "dgemm": address}.

    Raises
    ------
    OSError
        If it cannot be loaded, is not whole, or cannot be set as above since something else in this
        process uses it already. The message says why.
    """
    for part in NEEDED:
        if not path.with_name(path.name.replace("mkl_rt", part)).exists():
            raise OSError(f"{path.name.replace('mkl_rt', part)} is missing in {path.parent}")
    in_use = _is_loaded(path)
    library = ctypes.CDLL(str(path))
    try:
        if not in_use:                                # NumPy's own MKL is held by `backend`
            library.MKL_Set_Threading_Layer(SEQUENTIAL)
        if library.MKL_Set_Interface_Layer(0) & INTEGERS_OF_64_BITS:
            raise OSError("it is in use with integers of 64 bits")
        if library.MKL_CBWR_Get(BRANCH) < REPRODUCIBLE and library.MKL_CBWR_Set(REPRODUCIBLE):
            raise OSError("it is in use, and no longer lets itself be made reproducible")
        return {name: ctypes.cast(getattr(library, f"{name}_"), ctypes.c_void_p).value
                for name in ("sgemm", "dgemm")}
    except AttributeError as error:
        raise OSError(str(error)) from None


def _is_loaded(path):
    """Whether this process has loaded that library before."""
    return any(os.path.realpath(library.filepath) == str(path)
               for library in blas_controllers(internal_api="mkl"))
