"""Which version of a function runs, the NumPy reference or its compiled kernel: decided here only.

`function` makes one of the same name, arguments, results and errors from any function of
`numformer.functional` that has a backward. Real arrays go to its compiled version, which registers
itself in `kernels`. A function without one runs the reference, and so do complex arrays,
activations that are not compiled, and everything where Numba is missing or does not compile
(NUMBA_DISABLE_JIT), or after `use("numpy")`.
"""

import pkgutil
import sys
from contextlib import contextmanager, suppress
from functools import lru_cache, partial, wraps
from importlib import import_module
from inspect import signature

import numpy as np

from numformer import functional as reference
from numformer.backend.pool import (
    get_threads, is_inside, one_blas_thread, run_side_by_side, run_with_helpers)
from numformer.checks import check_choice, check_whole
from numformer.functional.attention.masks import EVERYWHERE
from numformer.webassembly.numpy_loop import Unavailable, set_loops

PARALLEL_FROM = 4e6                     # multiplications: what it costs to wake a thread
# These may split the columns of large matrices, and so run on several threads
SPREADS = {"linear", "feed_forward", "gated_feed_forward"}
INPUTS = {"residual_layer_norm": 2, "residual_rms_norm": 2}   # before the weights; of others, 1
_REAL = (np.dtype(np.float32), np.dtype(np.float64))
_version = "numba"


def use(version):
    """Choose which version runs: "numba", the compiled kernels (the default), "numpy" or "wasm".

    Complex arrays always go to the NumPy reference, and so does everything on a machine without
    Numba. "wasm" is the reference with matrix products in WebAssembly (`numformer.webassembly`),
    which are equal to the bit; it is the default in a browser.

    Raises
    ------
    ValueError
        If `version` is none of these, or cannot run here.

    Examples
    --------
    >>> use("numpy")
    >>> use("numba")
    """
    global _version
    check_choice("use", "version", version, ["numba", "numpy", "wasm"])
    try:
        if "wasm" in (version, _version):
            set_loops(ours=version == "wasm")
    except Unavailable as error:
        raise ValueError(f"use: version='wasm' cannot run here: {error}.") from None
    _version = version


def version_in_use():
    """The version that `use` has chosen: "numba", "numpy" or "wasm".

    Examples
    --------
    >>> with using("numpy"):
    ...     version_in_use()
    'numpy'
    """
    return _version


@contextmanager
def using(version):
    """Let one version run inside a with statement, and then the one that ran before.

    Parameters
    ----------
    version : "numba", "numpy" or "wasm"

    Raises
    ------
    ValueError
        As `use`.

    Examples
    --------
    >>> with using("numpy"):
    ...     print(blas_label().split()[0])
    NumPy
    """
    before = _version
    use(version)
    try:
        yield
    finally:
        use(before)


def compiled_attention():
    """The module of the compiled attention; None where Numba is missing."""
    return _kernels("attention.flash")


def compiled_token_step(dtype):
    """The module of the compiled decoding step; None if it is off, missing, or not for `dtype`."""
    return _kernels("decoding.run") if _version == "numba" and dtype in _REAL else None


def blas_choice():
    """Which BLAS computes the products of the kernels: `numformer.kernels.runtime.blas.Choice`.

    None where Numba is missing: then all products are NumPy's.
    """
    page = _kernels("runtime.blas")
    return page and page.CHOICE


def blas_label():
    """What computes matrix products now, with its version: the bits of a run depend on it."""
    choice = blas_choice() if _version == "numba" else None
    return f"NumPy {np.__version__}" if choice is None else choice.label


def token_step(x, wanted, texts, pages, model, angles):
    """`numformer.kernels.decoding.run.run_token_step`, on several threads where that pays.

    The result does not depend on their number, to the bit.
    """
    kernels = compiled_token_step(x.dtype)
    block = model.C * (2 * (model.H + model.G) * model.D + 3 * model.F)
    tasks = _tasks(len(x) * len(model.weights) * block)
    run = partial(run_with_helpers, blas=False)         # its products are its own
    return kernels.run_token_step(x, wanted, texts, pages, model, angles, tasks, run)


def scaled_dot_product_attention(q, k, v, pattern=EVERYWHERE, scale=None, slopes=None, bias=None,
                                 softcap=None, dropout=0.0, seed=None):
    """`numformer.functional.scaled_dot_product_attention`, compiled where that is possible.

    Parameters, result and errors are the same. It runs on several threads where that pays; the
    result does not depend on their number, to the bit.
    """
    compiled = _attention_for(q, k, v, bias)
    arguments = q, k, v, pattern, scale, slopes, bias, softcap, dropout, seed
    if compiled is None:
        o, saved = reference.scaled_dot_product_attention(*arguments)
    else:
        o, saved = compiled.scaled_dot_product_attention(
            *arguments, tasks=_tasks(q.size * k.shape[2]), run=run_with_helpers)
    return o, (compiled, saved)


def scaled_dot_product_attention_backward(do, saved):
    """The gradient of `scaled_dot_product_attention`, in the version that ran forward."""
    compiled, saved = saved
    if compiled is None:
        return reference.scaled_dot_product_attention_backward(do, saved)
    q, k = saved[:2]
    tasks = _tasks(q.size * k.shape[2])
    return compiled.scaled_dot_product_attention_backward(
        do, saved, tasks=tasks, run=run_with_helpers)


def tiled_attention(q, k, v, pattern=EVERYWHERE, scale=None, tile=64):
    """`numformer.functional.tiled_attention`, compiled where that is possible.

    Its compiled version is that of `scaled_dot_product_attention`, which chooses its own tiles.
    """
    check_whole("tiled_attention", "tile", tile)
    if _attention_for(q, k, v, None) is None:
        o, saved = reference.tiled_attention(q, k, v, pattern, scale, tile)
        return o, (None, saved)
    return scaled_dot_product_attention(q, k, v, pattern, scale)


def tiled_attention_backward(do, saved):
    """The gradient of `tiled_attention`, in the version that ran forward."""
    compiled, tiles = saved
    if compiled is None:
        return reference.tiled_attention_backward(do, tiles)
    return scaled_dot_product_attention_backward(do, saved)


def _attention_for(q, k, v, bias):
    """The compiled attention, if it can take these arrays; else None.

    What is not an array at all goes to the reference, which refuses it.
    """
    arrays = [q, k, v] if bias is None else [q, k, v, bias]
    fit = all(isinstance(x, np.ndarray) and x.dtype in _REAL for x in arrays)
    fit = fit and q.ndim == k.ndim == v.ndim == 4
    if _version == "numpy" or not fit or max(q.shape[3], v.shape[3]) > 256:
        return None
    return compiled_attention()


def _tasks(multiplications):
    return get_threads() if multiplications >= PARALLEL_FROM and not is_inside() else 1


def why_no_kernels():
    """Why there are no compiled kernels, as a text; "" where there are.

    Numba may be missing, or NUMBA_DISABLE_JIT may keep it from compiling: then loops would run in
    Python, and what is not Python (addresses, atomic steps) not at all.
    """
    try:
        import_module("numformer.kernels")            # imports Numba, and explains its complaints
    except ImportError as error:
        return " ".join(str(error).split())
    return "NUMBA_DISABLE_JIT is set" if import_module("numba").config.DISABLE_JIT else ""


@lru_cache(maxsize=None)
def _kernels(name):
    """A module of kernels/; None where there are none."""
    if why_no_kernels():
        return None
    try:
        import_module("numformer.kernels.runtime.blas")          # first: it may refuse a setting
        module = import_module(f"numformer.kernels.{name}")
    except ImportError:
        return None
    with one_blas_thread():             # also holds the BLAS library that came with the import
        return module


@lru_cache(maxsize=None)
def compiled_versions():
    """{function: the module of kernels/ with its compiled version}; empty where there are none."""
    if _kernels("runtime.blas") is None:
        return {}
    for page in pkgutil.iter_modules(import_module("numformer.kernels").__path__):
        _kernels(page.name)
    return _kernels("runtime.versions").VERSIONS


def is_compiled(activation):
    """Whether compiled versions of feed-forwards know an activation of the table."""
    page = _kernels("activations")
    return page is not None and activation in page.KINDS


def _functions(name, arguments):
    """The module whose function takes these arguments: compiled if possible, or the reference."""
    if _version == "numpy":
        return reference
    real = False
    for x in arguments:
        if isinstance(x, np.ndarray) and x.dtype.kind in "fc":
            if type(x) is not np.ndarray or x.dtype.char not in "fd" or x.size == 0:
                return reference
            real = True
    return real and compiled_versions().get(name) or reference


@lru_cache(maxsize=None)
def function(name):
    """A function of `numformer.functional` or its backward, in the version that can run.

    Parameters
    ----------
    name : str
        Of a function with a backward, as ``linear``; ``linear_backward``; or
        ``linear_backward_accumulate``, which adds the gradients of weights to arrays.

    Raises
    ------
    AttributeError
        If there is no such function.
    """
    forward = name.removesuffix("_accumulate").removesuffix("_backward")
    if not (hasattr(reference, forward) and hasattr(reference, f"{forward}_backward")):
        raise AttributeError(f"numformer.backend has no {name}; it has the functions of "
                             "numformer.functional that have a backward.")
    if name == forward:
        return _forward(name)
    return (_accumulating if name.endswith("_accumulate") else _backward)(forward)


def _forward(name):
    plain = getattr(reference, name)
    place = [*signature(plain).parameters, "activation"].index("activation")

    @wraps(plain)
    def forward(*arguments, **options):
        functions = _functions(name, (*arguments, *options.values()))
        if functions is not reference:
            kind = options.get("activation", *arguments[place:place + 1])
            if kind is not None and not is_compiled(kind):
                functions = reference
            elif name in SPREADS:
                options["each"] = run_side_by_side
        y, saved = getattr(functions, name)(*arguments, **options)
        return y, (functions, (y[0] if isinstance(y, tuple) else y).dtype, saved)

    return forward


def _backward(name):
    @wraps(getattr(reference, f"{name}_backward"))
    def backward(dy, saved):
        functions, dtype, saved = saved
        _check_gradient(name, functions, dtype, dy)
        return getattr(functions, f"{name}_backward")(dy, saved)

    return backward


def _accumulating(name):
    """The backward of a function of x and weights that adds to gradients in place; it returns dx.

    ``backward(dy, saved, *gradients)`` has an array for each gradient after dx, in their order, or
    None for a weight that was None. With several `INPUTS` before the weights, it returns the
    gradients of all of them.
    """
    inputs = INPUTS.get(name, 1)

    def backward(dy, saved, *gradients):
        functions, dtype, saved = saved
        _check_gradient(name, functions, dtype, dy)
        in_place = functions is not reference and all(
            total is None or total.dtype == dtype and total.flags.c_contiguous
            for total in gradients)
        if in_place:
            return getattr(functions, f"{name}_backward_accumulate")(dy, saved, *gradients)
        found = getattr(functions, f"{name}_backward")(dy, saved)
        for total, gradient in zip(gradients, found[inputs:], strict=True):
            if total is not None:
                total += gradient
        return found[0] if inputs == 1 else found[:inputs]

    backward.__name__ = f"{name}_backward_accumulate"
    return backward


def _check_gradient(name, functions, dtype, dy):
    """Check that dy, or each of several, has the dtype of the compiled forward."""
    for each in dy if isinstance(dy, tuple) else (dy,):
        if isinstance(each, np.ndarray) and functions is not reference and each.dtype != dtype:
            raise TypeError(f"{name}_backward: dy is {each.dtype}, but the forward ran in {dtype}; "
                            f"cast it with .astype(np.{dtype}).")


def add(x, y):
    """x + y. All that a compiled version could add is to reuse memory, so it is NumPy with that."""
    reuse = _version == "numba" and x.dtype == y.dtype and x.dtype in _REAL and x.shape == y.shape
    workspace = _kernels("runtime.workspace") if reuse else None
    return x + y if workspace is None else np.add(x, y, out=workspace.new_like(x))


def linear_backward_accumulate(dy, saved, weight_grad, bias_grad=None):
    """`numformer.functional.linear_backward_accumulate`, in the version that ran forward."""
    functions, _, saved = saved
    return functions.linear_backward_accumulate(dy, saved, weight_grad, bias_grad)


def adam_step(data, *arguments, **options):
    """`numformer.functional.adam_step`, compiled where possible: equal to the bit."""
    _functions("adam_step", (data, *arguments)).adam_step(data, *arguments, **options)


def sums_of_squares(arrays):
    """`numformer.functional.sums_of_squares`, compiled where possible."""
    return _functions("sums_of_squares", arrays).sums_of_squares(arrays)


ACTIVATIONS = {name: (function(name), function(f"{name}_backward"))
               for name in reference.ACTIVATIONS}
if sys.platform == "emscripten":
    with suppress(ValueError):                        # a browser without vectors
        use("wasm")
