"""Compare an implementation elsewhere with the reference, on the problems of `numformer.check`."""

from dataclasses import replace

import numpy as np

from numformer.checks import check_choice, check_number, check_whole
from numformer.other_libraries import as_array
from numformer.specifications import find_problem
from numformer.teaching.check import compared
from numformer.testing.layouts import layouts_of

RTOL = {np.float64: 1e-9, np.float32: 1e-4}           # erf in float32 alone has 4e-5 at -3.5


def assert_matches(name, f, layout=None, dtype="float64", rtol=None, convert=None, levels=None,
                   seed=0):
    """Assert that `f` computes the same as the function or backward of this name.

    Parameters
    ----------
    name : str
        A function of `numformer.functional`, such as "layer_norm", or its backward, such as
        "layer_norm_backward".
    f : callable
        A forward takes the arguments of the reference and returns y, or a tuple that begins with
        y. A backward takes the gradient of y and then the arguments of the forward, and returns
        the gradients of the arrays in their order. Whatever has `__array__` may come back: NumPy
        arrays, tensors, arrays of JAX. Options of the reference, such as `epsilon`
        or `pattern`, are tested only if `f` has parameters of these names.
    layout : str or dict of str to str, optional
        How `f` orders the axes, such as ``{"weight": "IO->OI"}``; a str is for every array with as
        many axes, as "BHTD->BTHD" for attention. The result of a forward is "y"; gradients have the
        layout of their arrays.
    dtype : "float64" or "float32"
        Of the arrays that `f` gets. The reference is computed in float64.
    rtol : float, optional
        The largest relative error; 1e-9 in float64 and 1e-4 in float32 by default. What is less
        than 300 rounding errors of the terms that were added is no error.
    convert : callable, optional
        Applied to each array that `f` gets, such as `torch.from_numpy`. The arrays are contiguous,
        and whole numbers are int64.
    levels : sequence of str, optional
        Which levels of the problem; by default all that the signature of `f` allows.
    seed : int
        Of the problems: the same ones every time.

    Raises
    ------
    AssertionError
        If `f` differs, raises, or is random: the first array that differs and where, both numbers,
        the level, the likely cause and the seed.
    TypeError, ValueError
        If an argument is not as above.

    Notes
    -----
    `f` runs in this process and without limits; `numformer.check` has both.

    Examples
    --------
    >>> def linear(x, weight, bias):  # with weight (out, in), as in PyTorch
    ...     return x @ weight.T + bias
    >>> assert_matches("linear", linear, layout={"weight": "IO->OI"})
    """
    name, problem, backward = find_problem(name)
    if not callable(f) or not (convert is None or callable(convert)):
        raise TypeError("assert_matches: f and convert must be functions.")
    check_choice("assert_matches", "dtype", dtype, ["float64", "float32"])
    check_whole("assert_matches", "seed", seed, least=0)
    if rtol is not None:
        check_number("assert_matches", "rtol", rtol, above=0)
    for level in levels or ():
        check_choice("assert_matches", "level", level, list(problem.levels))
    dtype = np.dtype(dtype).type
    problem = replace(problem, levels={
        key: replace(level, dtype=dtype, close=rtol or RTOL[dtype])
        for key, level in problem.levels.items() if level.required or key in (levels or ())})
    call = adapted(f, problem, backward, layout, convert)
    with np.errstate(all="ignore"):
        verdict = compared(name, problem, backward, call, seed, levels)
    if not verdict:
        raise AssertionError(f"{verdict.text}, dtype={dtype.__name__}")     # after the seed


def adapted(f, problem, backward, layout=None, convert=None):
    """`f` as a function of NumPy arrays in our order of axes."""
    first = next(iter(problem.levels.values()))
    arguments = first(np.random.default_rng(0))[0]
    layouts = layouts_of(layout, ["y", *arguments])
    names = ["dy"] * backward + list(arguments)

    def layout_of(key, x):
        found = layouts.get("y" if key == "dy" else key)
        fits = isinstance(layout, dict) or found and np.ndim(x) == len(found.ours)
        return found if fits else None

    def given(key, x, sizes):
        if not isinstance(x, np.ndarray):
            return x
        change = layout_of(key, x)
        x = np.array(change.to_theirs(x, sizes) if change else x, order="C")
        x = x.astype(np.int64) if x.dtype.kind == "i" else x
        return convert(x) if convert else x

    def call(*positional, **options):
        sizes = {}
        theirs = [given(key, x, sizes) for key, x in zip(names, positional)]
        further = {key: given(key, x, sizes) for key, x in options.items()}
        returned = f(*theirs, *positional[len(theirs):], **further)
        outputs = returned if isinstance(returned, (tuple, list)) else (returned,)
        keys = problem.wanted if backward else ["y"]
        return tuple(_as_ours(x, layouts.get(key), sizes)
                     for key, x in zip(keys, outputs)) + tuple(outputs[len(keys):])

    call.__wrapped__ = f                              # what inspect.signature follows
    return call


def _as_ours(x, change, sizes):
    """An output as a NumPy array in our order of axes."""
    if x is None or isinstance(x, float):
        return x
    x = np.asarray(as_array(x))
    return change.to_ours(x, sizes) if change else x
