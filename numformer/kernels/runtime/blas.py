"""Which BLAS library computes the products of the kernels: SciPy's, or MKL where it is faster.

Kernels call BLAS through symbols of ours, such as `numformer_sgemm`. Compiled code, also from the
cache, looks symbols up by name when it is loaded. So the library is chosen in each process, and
another choice compiles nothing anew.

Products of small tiles that are in the cache, those of attention, stay with SciPy's library: there
MKL is up to a twentieth slower (`numformer bench attention`).

The bits of a product depend on the library: a run is equal to the byte with the same one alone.
Hence the choice does not depend on how busy the machine is at the moment: MKL and SciPy's library
are timed once (`blas_speed.py`), and the result is kept with the compiled kernels.
"""

import os
from dataclasses import dataclass, replace

import llvmlite.binding
import scipy
import scipy.linalg.cython_blas  # noqa: F401  (the BLAS whose addresses are looked up below)
from numba import types
from numba.extending import get_cython_function_address
from threadpoolctl import ThreadpoolController

from numformer.kernels.runtime.blas_speed import kept_milliseconds
from numformer.kernels.runtime.mkl import find_mkl, load_mkl

VARIABLE, MKL, OPENBLAS = "NUMFORMER_BLAS", "mkl", "openblas"
MARGIN = 0.97                           # MKL must take less than this part of the other's time


@dataclass(frozen=True)
class Choice:
    """The library of the kernels' products.

    Attributes
    ----------
    name : str
        "mkl" or "openblas"; the latter is the library that SciPy brings, whatever it is.
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


def choose(wanted=None, find=find_mkl, load=load_mkl, milliseconds=kept_milliseconds):
    """The library for this process.

    Parameters
    ----------
    wanted : str, optional
        "mkl", "openblas", or None for the faster one: the environment variable NUMFORMER_BLAS.
    find, load, milliseconds : callable
        `find_mkl`, `load_mkl` and `kept_milliseconds`.

    Returns
    -------
    Choice

    Raises
    ------
    ValueError
        If `wanted` is another word, or MKL where that cannot be had.
    """
    if wanted not in (None, MKL, OPENBLAS):
        raise ValueError(f"{VARIABLE}={wanted} must be {MKL} or {OPENBLAS}; without it the faster "
                         "library is taken.")
    ours = {name: get_cython_function_address("scipy.linalg.cython_blas", name)
            for name in ("sgemm", "dgemm")}
    tiles = {f"tile_{name}": address for name, address in ours.items()}
    label = _label_of_scipys()

    def openblas(why):
        if wanted == MKL:
            raise ValueError(f"{VARIABLE}={MKL}, but {why}; pip install 'numformer[mkl]', or leave "
                             "the variable out.")
        return Choice(OPENBLAS, label, label, why, {**ours, **tiles})

    if wanted == OPENBLAS:
        return openblas(f"{VARIABLE}={OPENBLAS}")
    found = find()
    if found is None:
        return openblas("mkl is not installed")
    path, version = found
    try:
        addresses = load(path)
    except OSError as error:
        return openblas(f"mkl {version} cannot be used: {' '.join(str(error).split())}")
    theirs = Choice(MKL, f"MKL {version}".strip(), label, f"{VARIABLE}={MKL}",
                    {**addresses, **tiles})
    if wanted == MKL:
        return theirs
    took, why_not = milliseconds(f"{scipy.__version__}, {label}, {path.name} {version}",
                                 {OPENBLAS: ours["sgemm"], MKL: addresses["sgemm"]})
    if took is None:
        return openblas(f"the speed of mkl {version} cannot be kept: {why_not}")
    why = (f"measured once on this machine: products of a training step took {took[MKL]:.1f} ms "
           f"with MKL and {took[OPENBLAS]:.1f} with SciPy's library")
    if took[MKL] > MARGIN * took[OPENBLAS]:
        return openblas(why)
    return replace(theirs, why=why)


def _label_of_scipys():
    """Its name, its version, and for which kind of processor it computes, if that is known."""
    found = scipy.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    name, version = found.get("name", "BLAS"), found.get("version", "")
    kinds = {library["architecture"] for library in ThreadpoolController().info()
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
