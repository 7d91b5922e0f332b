"""Which library computes the products of the kernels: SciPy's BLAS, MKL, or a product of our own.

Kernels call BLAS through symbols of ours, such as `numformer_sgemm`. Compiled code, also from the
cache, looks symbols up by name when it is loaded. So the library is chosen in each process, and
another choice compiles nothing again.

Products of small tiles that are in the cache, those of attention, stay with SciPy's library: there
the others are up to a tenth slower (`numformer bench attention`). Our own product is for float32
alone: in float64 gradients are checked, not trained.

The bits of a product depend on the library: a run is equal to the byte with the same one alone.
Hence the choice does not depend on how busy the machine is at the moment: the libraries are timed
once (`blas_speed.py`), and the result is kept with the compiled kernels. From then on a process
loads the chosen one alone.
"""

import os
from dataclasses import dataclass

import llvmlite.binding
import numba
import scipy
import scipy.linalg.cython_blas  # noqa: F401  (the BLAS whose addresses are looked up below)
from numba import types
from numba.extending import get_cython_function_address

from numformer.blas_threads import blas_controllers
from numformer.kernels.runtime.blas_speed import kept_milliseconds
from numformer.kernels.runtime.mkl import find_mkl, load_mkl
from numformer.kernels.runtime.own_product import SGEMM

VARIABLE, OPENBLAS, MKL, OWN = "NUMFORMER_BLAS", "openblas", "mkl", "numformer"
NAMES = {OPENBLAS: "SciPy's library", MKL: "MKL", OWN: "numformer's own"}
MARGIN = 0.97                           # another must take less than this part of SciPy's time


@dataclass(frozen=True)
class Choice:
    """The library of the kernels' products.

    Attributes
    ----------
    name : str
        "openblas", which is the library that SciPy brings, whatever it is; "mkl" or "numformer".
    label, tile_label : str
        The library with its version and kind of processor; the one for tiles.
    why : str
        Why this one.
    addresses : dict of str to int
        Of `sgemm` and `dgemm`, and for tiles of `tile_sgemm` and `tile_dgemm`; all take arguments
        as in Fortran.
    """

    name: str
    label: str
    tile_label: str
    why: str
    addresses: dict


def choose(wanted=None, find=find_mkl, load=load_mkl, milliseconds=kept_milliseconds, own=SGEMM):
    """The library for this process.

    Parameters
    ----------
    wanted : str, optional
        "openblas", "mkl", "numformer", or None for the fastest: the environment variable
        NUMFORMER_BLAS.
    find, load, milliseconds : callable
        `find_mkl`, `load_mkl` and `kept_milliseconds`.
    own : CFunction
        Our own product.

    Returns
    -------
    Choice

    Raises
    ------
    ValueError
        If `wanted` is another word, or MKL where that cannot be had.
    """
    if wanted not in (None, *NAMES):
        raise ValueError(f"{VARIABLE}={wanted} must be {OPENBLAS}, {MKL} or {OWN}; without it the "
                         "fastest library is taken.")
    scipys = {name: get_cython_function_address("scipy.linalg.cython_blas", name)
              for name in ("sgemm", "dgemm")}
    label, missing = _label_of_scipys(), []
    labels = {OPENBLAS: label, OWN: f"numformer's own product; float64: {label}"}
    products = {OPENBLAS: lambda: scipys, OWN: lambda: {**scipys, "sgemm": own.address}}
    if numba.config.DISABLE_JIT:
        del products[OWN]
        missing.append("with NUMBA_DISABLE_JIT numformer's own product is not compiled")
    found = find() if wanted in (None, MKL) else None
    if found is not None:
        path, version = found
        labels[MKL], products[MKL] = f"MKL {version}".strip(), lambda: load(path)
    elif wanted in (None, MKL):
        missing.append("mkl is not installed")

    def loaded(name):
        """The addresses of a library's products; {} if it cannot be loaded."""
        try:
            return products[name]()
        except OSError as error:
            missing.append(f"{labels[name]} cannot be used: {' '.join(str(error).split())}")
            return {}

    def choice(name, why):
        addresses = loaded(name) if name in products else {}
        if not addresses and wanted is not None:
            cure = "pip install 'numformer[mkl]', or " if wanted == MKL else ""
            raise ValueError(f"{VARIABLE}={wanted}, but {missing[-1]}; {cure}leave the variable "
                             "out.")
        if not addresses:
            name, addresses = OPENBLAS, scipys
        tiles = {f"tile_{routine}": address for routine, address in scipys.items()}
        return Choice(name, labels[name], label, "; ".join([why, *missing]), {**addresses, **tiles})

    if wanted is not None:
        return choice(wanted, f"{VARIABLE}={wanted}")
    if OWN not in products:             # nothing is measured, as the result would be kept
        return choice(OPENBLAS, "SciPy's library")
    took, why_not = milliseconds(
        f"{scipy.__version__}, {', '.join(labels.values())}",
        lambda: {name: found["sgemm"] for name in products if (found := loaded(name))})
    if took is None:
        return choice(OPENBLAS, f"the speed of others cannot be kept: {why_not}")
    fastest = min(took, key=took.get)
    times = ", ".join(f"{ms:.1f} ms with {NAMES[name]}" for name, ms in took.items())
    return choice(fastest if took[fastest] < MARGIN * took[OPENBLAS] else OPENBLAS,
                  f"measured once on this machine: products of a training step took {times}")


def _label_of_scipys():
    """Its name, its version, and for which kind of processor it computes, if that is known."""
    found = scipy.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    name, version = found.get("name", "BLAS"), found.get("version", "")
    libraries = [library.info() for library in blas_controllers(user_api="blas")]
    kinds = {library["architecture"] for library in libraries
             if "architecture" in library and library["version"] == version}
    return " ".join(filter(None, (name, version, *sorted(kinds))))


CHOICE = choose(os.environ.get(VARIABLE) or None)
for _routine, _address in CHOICE.addresses.items():
    llvmlite.binding.add_symbol(f"numformer_{_routine}", _address)

# Whether either matrix is transposed, sizes, alpha, two matrices with their strides, beta, and the
# result with its stride: addresses, as in Fortran
_GEMM = types.void(*13 * [types.voidptr])
sgemm, dgemm, tile_sgemm, tile_dgemm = (types.ExternalFunction(f"numformer_{routine}", _GEMM) for
                                        routine in ("sgemm", "dgemm", "tile_sgemm", "tile_dgemm"))
