"""Which twin runs, the truth in NumPy or its compiled form: decided here and nowhere else.

A name here is a function of `numformer.functional` with the same arguments, results and errors. Real numbers go to the
compiled twin; complex ones, and everything where Numba is missing or `use("numpy")` was said, to the truth.
"""

from functools import lru_cache, wraps
from importlib import import_module

import numpy as np

from numformer import functional as truth
from numformer.backend.pool import get_threads, is_inside, one_blas_thread, run_with_helpers
from numformer.checks import check_choice
from numformer.functional.pattern import EVERYWHERE

WORTH_A_THREAD = 4e6                                                  # products: to wake a thread costs as much as this many take
TWINS = {                                                             # function: the page of kernels/ that has its twin
    "layer_norm": "normalization", "rms_norm": "normalization",
    **dict.fromkeys(["relu", "relu_squared", "gelu", "gelu_tanh", "silu", "swish", "gated_linear_unit"], "activations"),
    "linear": "linear", "cross_entropy": "cross_entropy", "rotary": "positions", "embedding": "embedding",
    "dropout": "dropout", "residual_dropout": "dropout", "adam_step": "adam", "sum_of_squares": "adam",
}
_REAL = (np.dtype(np.float32), np.dtype(np.float64))
_twin = "numba"


def use(twin):
    """Choose what runs where there is a choice: "numba", the compiled kernels (the default), or "numpy", the truth.

    Complex numbers, and everything on a machine without Numba, go to the truth in any case.

    Raises
    ------
    ValueError
        If `twin` is neither.

    Examples
    --------
    >>> use("numpy")
    >>> use("numba")
    """
    global _twin
    check_choice("use", "twin", twin, ["numba", "numpy"])
    _twin = twin


def compiled_attention():
    """The module of the compiled twin; None where Numba is missing."""
    return _page("attention")


def compiled_token_step(dtype):
    """The page of the compiled way of one token through a decoder, if it is wanted, there, and can take such numbers; else None."""
    return _page("token_step") if _twin == "numba" and dtype in _REAL else None


def token_step(x, weights, *arguments):
    """`numformer.kernels.token_step.run_token_step`, on several threads where that pays: the bits do not depend on their number."""
    page = compiled_token_step(x.dtype)
    return page.run_token_step(x, weights, *arguments, tasks=_tasks(len(weights) * 12 * len(x) ** 2), run=run_with_helpers)


def scaled_dot_product_attention(q, k, v, pattern=EVERYWHERE, scale=None, slopes=None, bias=None, softcap=None, dropout=0.0, seed=None):
    """`numformer.functional.scaled_dot_product_attention`, by the kernel where it can, on several threads where that pays.

    Parameters, result and errors are the same; the bits do not depend on the number of threads.
    """
    compiled = _kernel_for(q, k, v, bias)
    arguments = q, k, v, pattern, scale, slopes, bias, softcap, dropout, seed
    if compiled is None:
        o, saved = truth.scaled_dot_product_attention(*arguments)
    else:
        o, saved = compiled.scaled_dot_product_attention(*arguments, tasks=_tasks(q.size * k.shape[2]), run=run_with_helpers)
    return o, (compiled, saved)


def scaled_dot_product_attention_backward(do, saved):
    """The gradient of `scaled_dot_product_attention`, by the twin that ran forward."""
    compiled, saved = saved
    if compiled is None:
        return truth.scaled_dot_product_attention_backward(do, saved)
    q, k = saved[:2]
    tasks = _tasks(q.size * k.shape[2])
    return compiled.scaled_dot_product_attention_backward(do, saved, tasks=tasks, run=run_with_helpers)


def _kernel_for(q, k, v, bias):
    """The compiled twin, if it is wanted, there, and can take these arrays (what is no array at all, the truth will refuse)."""
    arrays = [q, k, v] if bias is None else [q, k, v, bias]
    fit = all(isinstance(x, np.ndarray) and x.dtype in _REAL for x in arrays) and q.ndim == k.ndim == 4
    if _twin == "numpy" or not fit or q.shape[3] > 256:
        return None
    return compiled_attention()


def _tasks(products):
    return get_threads() if products >= WORTH_A_THREAD and not is_inside() else 1


@lru_cache(maxsize=None)
def _page(name):
    """A page of kernels/; None where Numba is missing."""
    try:
        page = import_module(f"numformer.kernels.{name}")
    except ImportError:
        return None
    with one_blas_thread():                                           # the BLAS that came with it is held too, if others are
        return page


def _functions(name, arguments):
    """Where a function is taken from: its compiled twin's page, if that is wanted, there, and can take these arguments; else the truth."""
    if _twin == "numpy":
        return truth
    real = False
    for x in arguments:
        if isinstance(x, np.ndarray) and x.dtype.kind in "fc":
            if type(x) is not np.ndarray or x.dtype.char not in "fd" or x.size == 0:
                return truth
            real = True
    return real and _page(TWINS[name]) or truth


def _pair(name):
    """A function and its backward, which runs by the twin that ran forward."""
    @wraps(getattr(truth, name))
    def forward(*arguments, **options):
        functions = _functions(name, (*arguments, *options.values()))
        y, saved = getattr(functions, name)(*arguments, **options)
        return y, (functions, y.dtype, saved)

    @wraps(getattr(truth, f"{name}_backward"))
    def backward(dy, saved):
        functions, dtype, saved = saved
        if isinstance(dy, np.ndarray) and functions is not truth and dy.dtype != dtype:
            raise TypeError(f"{name}_backward: dy is {dy.dtype}, but the forward ran in {dtype}; cast it with .astype(np.{dtype}).")
        return getattr(functions, f"{name}_backward")(dy, saved)

    return forward, backward


def add(x, y):
    """x + y; a compiled twin has no more to give than memory that was used before."""
    room = _page("room") if _twin == "numba" and x.dtype == y.dtype and x.dtype in _REAL and x.shape == y.shape else None
    return x + y if room is None else np.add(x, y, out=room.new_like(x))


def linear_backward(dy, saved, dweight=None):
    """The gradient of `linear`, by the twin that ran forward."""
    functions, _, saved = saved
    return functions.linear_backward(dy, saved, dweight)


def adam_step(data, *arguments, **options):
    """`numformer.functional.adam_step`, by its compiled twin where that can be: equal to the bit."""
    _functions("adam_step", (data, *arguments)).adam_step(data, *arguments, **options)


def sum_of_squares(x):
    """`numformer.functional.sum_of_squares`, by its compiled twin where that can be."""
    return _functions("sum_of_squares", (x,)).sum_of_squares(x)


layer_norm, layer_norm_backward = _pair("layer_norm")
rms_norm, rms_norm_backward = _pair("rms_norm")
relu, relu_backward = _pair("relu")
relu_squared, relu_squared_backward = _pair("relu_squared")
gelu, gelu_backward = _pair("gelu")
gelu_tanh, gelu_tanh_backward = _pair("gelu_tanh")
silu, silu_backward = _pair("silu")
swish, swish_backward = _pair("swish")
gated_linear_unit, gated_linear_unit_backward = _pair("gated_linear_unit")
linear, _ = _pair("linear")
cross_entropy, cross_entropy_backward = _pair("cross_entropy")
rotary, rotary_backward = _pair("rotary")
embedding, embedding_backward = _pair("embedding")
dropout, dropout_backward = _pair("dropout")
residual_dropout, residual_dropout_backward = _pair("residual_dropout")

ACTIVATIONS = {name: (globals()[name], globals()[f"{name}_backward"]) for name in truth.ACTIVATIONS}
