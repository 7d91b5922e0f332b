"""Compare an implementation elsewhere with the reference, on the problems of `numformer.check`."""

from dataclasses import replace

import numpy as np

from numformer.checks import check_choice, check_number, check_whole
from numformer.other_libraries import as_array
from numformer.specifications import find_problem
from numformer.teaching.check import compared
from numformer.testing.half import EPSILONS, in_half, is_within, rounded, with_large_squares
from numformer.testing.layouts import LayoutError, layouts_of

# The relative error of a right result; erf in float32 alone has 4e-5 at -3.5
RTOL = {"float64": 1e-9, "float32": 1e-4}
SMALL, LARGE = "small numbers", "large numbers"
DTYPES = [*RTOL, *EPSILONS]


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
        the gradients of the arrays in their order. NumPy arrays may come back, tensors, also with a
        graph or on a GPU, arrays of JAX, and of CuPy: whatever has `__array__` or `get`. Options
        of the reference, such as `epsilon` or `pattern`, are tested only if `f` has parameters of
        these names; of a module of PyTorch, those of its forward count.
    layout : str or dict of str to str, optional
        How `f` orders the axes, such as ``{"weight": "IO->OI"}``; a str is for every array with as
        many axes, as "BHTD->BTHD" for attention. The result of a forward is "y", whose sizes are
        those of the reference; gradients have the layout of their arrays.
    dtype : "float64", "float32", "float16" or "bfloat16"
        Of the arrays that `f` gets; the reference is computed in float64 on the same numbers. NumPy
        has no bfloat16: `f` gets float32 arrays that hold numbers of bfloat16, which `convert` may
        make such, as ``lambda x: torch.from_numpy(x).bfloat16()`` does for arrays of floats.
    rtol : float, optional
        The largest relative error; 1e-9 in float64 and 1e-4 in float32 by default. What is less
        than 300 rounding errors of the terms that were added is no error. In float16 and bfloat16,
        a few roundings of the inputs, of the result, and of the largest number of its array.
    convert : callable, optional
        Applied to each array that `f` gets, such as `torch.from_numpy`. The arrays are contiguous,
        and whole numbers are int64.
    levels : sequence of str, optional
        Which levels of the problem; by default all that the signature of `f` allows.
    seed : int
        Of the problems: the same ones every time.

    Returns
    -------
    Verdict
        That of `numformer.check`: its `levels` were tested; its `not_tested` names options without
        a parameter and levels that were left out, with a reason.

    Raises
    ------
    AssertionError
        If `f` differs, raises, or is random: the first array that differs and where, both numbers,
        the level, the likely cause and the seed. For float32 and less, the cause is looked for in
        float64, where `f` is called again; for float16 and bfloat16, after it was called in
        float32.
    TypeError, ValueError
        If an argument is not as above, or a layout does not fit its array.

    Notes
    -----
    `f` runs in this process and without limits; `numformer.check` has both.

    Examples
    --------
    >>> def linear(x, weight, bias):  # with weight (out, in), as in PyTorch
    ...     return x @ weight.T + bias
    >>> assert_matches("linear", linear, layout={"weight": "IO->OI"}).not_tested
    ('no bias (its default must be None)',)
    """
    __tracebackhide__ = True                          # pytest shows the verdict alone
    name, problem, backward = find_problem(name)
    if not callable(f) or not (convert is None or callable(convert)):
        raise TypeError("assert_matches: f and convert must be functions.")
    check_choice("assert_matches", "dtype", dtype, DTYPES)
    check_whole("assert_matches", "seed", seed, least=0)
    if rtol is not None:
        check_number("assert_matches", "rtol", rtol, above=0)
    for level in levels or ():
        check_choice("assert_matches", "level", level, list(problem.levels))
    tested, left_out = _levels(problem, levels, dtype)
    if levels and tested.levels.keys().isdisjoint(levels):
        raise ValueError(f"assert_matches: {dtype} holds the numbers of none of these levels: "
                         f"{', '.join(levels)}; name others, or another dtype.")
    wrong_layouts = []

    def verdict_in(dtype):
        call = adapted(f, problem, backward, layout, convert, dtype, wrong_layouts)
        return _verdict(name, tested, backward, call, dtype, rtol, seed, levels)
    verdict = verdict_in(dtype)
    if wrong_layouts:
        raise ValueError(f"assert_matches: {wrong_layouts[0]}")
    if not verdict:
        more = "" if not verdict.output or levels else _in_higher_precision(
            verdict, dtype, verdict_in)
        text = replace(verdict, words=verdict.words + more).text
        raise AssertionError(f"{text}, dtype={dtype}")                   # after the seed
    return replace(verdict, not_tested=(*verdict.not_tested, *left_out), levels=tuple(
        level for level in verdict.levels if level != SMALL or SMALL not in " ".join(left_out)))


def _levels(problem, levels, dtype):
    """(the problem with the levels that are tested, why others are not)."""
    optional, beyond, kept = [], [], {}
    plain = next(iter(problem.levels.values()))
    for key, level in problem.levels.items():
        arguments, options = level(np.random.default_rng(0))
        if not level.required and key not in (levels or ()):
            optional.append(key)
        elif dtype in EPSILONS and not is_within(
                [*arguments.values(), *options.values(), np.array([level.dy])], dtype):
            smaller = key == LARGE and with_large_squares(problem, plain, arguments, dtype)
            if smaller:
                kept[key] = smaller
                continue
            beyond.append(key)
            if key == SMALL:                          # `check` makes a second call with it
                kept[key] = replace(level, make=plain.make)
        else:
            kept[key] = level
    left_out = [f"{', '.join(optional)} (only if named in levels)"] if optional and not levels \
        else []
    left_out += [f"{', '.join(beyond)} (beyond the range of {dtype})"] if beyond else []
    return replace(problem, levels=kept), left_out


def _verdict(name, problem, backward, call, dtype, rtol, seed, levels):
    """The verdict on a function of NumPy arrays in a dtype."""
    kind = np.float64 if dtype == "float64" else np.float32

    def made(level):
        if dtype not in EPSILONS:
            return level.make

        def make(rng):
            return tuple({name: rounded(x, dtype) if _is_float(x) else x
                          for name, x in part.items()} for part in level.make(rng))
        return make
    problem = replace(problem, levels={
        key: replace(level, make=made(level), dtype=kind,
                     close=RTOL.get(dtype, RTOL["float32"]) if rtol is None else rtol)
        for key, level in problem.levels.items()})
    if dtype in EPSILONS:
        gradient = problem.gradient
        problem = replace(problem, gradient=lambda dy, saved: gradient(
            rounded(dy, dtype) if _is_float(dy) else dy, saved))
        call = in_half(call, problem, backward, dtype, rtol)
    with np.errstate(all="ignore"):
        return compared(name, problem, backward, call, seed, levels)


def _in_higher_precision(verdict, dtype, verdict_in):
    """What checks in float32 and float64 add to a verdict on fewer digits."""
    for higher in {"float64": (), "float32": ("float64",)}.get(dtype, tuple(RTOL)[::-1]):
        found = verdict_in(higher)
        if found:
            return f"\nIn {higher} it is right: the error is one of precision."
        if found.cause and found.output == verdict.output:        # in float64 alone
            return f"\nLikely cause, found in {higher}: {found.cause}."
    return ""


def adapted(f, problem, backward, layout, convert, dtype, wrong_layouts):
    """`f` as a function of NumPy arrays in our order of axes.

    What is wrong in `layout`, and not in `f`, is an error that is added to `wrong_layouts`.
    """
    halves = EPSILONS.get(dtype)
    first = next(iter(problem.levels.values()))
    arguments = first(np.random.default_rng(0))[0]
    layouts = layouts_of(layout, ["y", *arguments])
    names = ["dy"] * backward + list(arguments)

    def layout_of(key, shape):
        found = layouts.get("y" if key == "dy" else key)
        fits = isinstance(layout, dict) or found and len(shape) == len(found.ours)
        return found if fits else None

    def given(key, x):
        if not isinstance(x, np.ndarray):
            return x
        change = layout_of(key, x.shape)
        x = np.array(change.to_theirs(x) if change else x, order="C")
        x = x.astype(np.int64) if x.dtype.kind == "i" else x
        if halves and x.dtype.kind == "f":            # dy is not yet rounded
            x = rounded(x, dtype).astype("float16" if dtype == "float16" else np.float32)
        return convert(x) if convert else x

    def shape_of(key, positional, options):
        """That of an output of ours."""
        if backward:
            return np.shape(positional[names.index(key)])
        return np.shape(problem.function(*positional, **options)[0])

    def call(*positional, **options):
        try:
            return called(positional, options)
        except LayoutError as error:
            wrong_layouts.append(error)
            raise

    def called(positional, options):
        theirs = [given(key, x) for key, x in zip(names, positional)]
        further = {key: given(key, x) for key, x in options.items()}
        returned = f(*theirs, *positional[len(theirs):], **further)
        outputs = returned if isinstance(returned, (tuple, list)) else (returned,)
        found = list(outputs)
        for k, (key, x) in enumerate(zip(problem.wanted if backward else ["y"], outputs)):
            x = _as_array(x)
            if key in layouts and isinstance(x, np.ndarray):
                shape = shape_of(key, positional, options)
                change = layout_of(key, shape)
                x = change.to_ours(x, shape) if change else x
            found[k] = x
        return tuple(found)

    call.__wrapped__ = signed(f)                      # what inspect.signature follows
    return call


def signed(f):
    """What has the signature of a function: of a module of PyTorch, its forward."""
    is_module = hasattr(f, "named_parameters") and hasattr(f, "register_forward_hook")
    return f.forward if is_module else f


def _as_array(x):
    """An output as a NumPy array."""
    if x is None or isinstance(x, float):
        return x
    x = np.asarray(as_array(x))
    return x.astype(np.float32) if x.dtype == np.float16 else x


def _is_float(x):
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"
