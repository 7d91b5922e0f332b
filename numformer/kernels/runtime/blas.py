"""Which library computes the products of the kernels: SciPy's BLAS, MKL, or a product of our own.

Kernels call BLAS through symbols of ours, such as `numformer_sgemm`. Compiled code, also from the
cache, looks symbols up by name when it is loaded. So the library is chosen in each process, and
another choice compiles nothing anew.

Products of small tiles that are in the cache, those of attention, stay with SciPy's library: there
the others are up to a tenth slower (`numformer bench attention`). Our own product is for float32
alone: in float64 gradients are checked, not trained.

The bits of a product depend on the library: a run is equal to the byte with the same one alone.
Hence the choice does not depend on how busy the machine is at the moment: the libraries are timed
once (`blas_speed.py`), and the result is kept with the compiled kernels.
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
    tiles = {f"tile_{name}": address for name, address in scipys.items()}
    label = _label_of_scipys()
    found = {OPENBLAS: Choice(OPENBLAS, label, label, "", {**scipys, **tiles})}
    missing = None
    if wanted in (None, MKL):
        mkl, version, missing = _found_mkl(find, load)
        if mkl is not None:
            found[MKL] = replace(found[OPENBLAS], name=MKL, label=f"MKL {version}".strip(),
                                 addresses={**mkl, **tiles})
    if wanted == MKL and missing:
        raise ValueError(f"{VARIABLE}={MKL}, but {missing}; pip install 'numformer[mkl]', or leave "
                         "the variable out.")
    if wanted in (None, OWN):
        found[OWN] = replace(
            found[OPENBLAS], name=OWN, label=f"numformer's own product; float64: {label}",
            addresses={**found[OPENBLAS].addresses, "sgemm": own.address})
    if wanted is not None:
        return replace(found[wanted], why=f"{VARIABLE}={wanted}")
    took, why_not = milliseconds(
        f"{scipy.__version__}, " + ", ".join(choice.label for choice in found.values()),
        {name: choice.addresses["sgemm"] for name, choice in found.items()})
    if took is None:
        return replace(found[OPENBLAS], why=f"the speed of others cannot be kept: {why_not}")
    fastest = min(took, key=took.get)
    times = ", ".join(f"{took[name]:.1f} ms with {NAMES[name]}" for name in found)
    why = f"measured once on this machine: products of a training step took {times}"
    return replace(found[fastest if took[fastest] < MARGIN * took[OPENBLAS] else OPENBLAS],
                   why="; ".join(filter(None, (why, missing))))


def _found_mkl(find, load):
    """(addresses of MKL's products, its version, None), or (None, None, why there are none)."""
    found = find()
    if found is None:
        return None, None, "mkl is not installed"
    path, version = found
    try:
        return load(path), version, None
    except OSError as error:
        return None, None, f"mkl {version} cannot be used: {' '.join(str(error).split())}"


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
