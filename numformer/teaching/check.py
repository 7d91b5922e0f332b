"""Check a function of a student on random problems, and name the likely cause of an error."""

from dataclasses import replace

import numpy as np

from numformer.checks import check_choice, check_whole
from numformer.teaching.calls import answer
from numformer.teaching.isolation import check_limits, isolated
from numformer.teaching.likely_cause import CLOSE, is_array, likely_cause
from numformer.teaching.problems import Instance, find_problem
from numformer.teaching.signatures import accepts, takes_saved
from numformer.teaching.verdict import Verdict
from numformer.verify.errors import relative_error

INSTANCES = 3                                                         # of each level


def check(name, fn, seed=None, levels=None, seconds=10.0, memory=2 ** 30, process=None):
    """Is this function right? Compare it with the reference on random problems of unseen shapes.

    Parameters
    ----------
    name : str
        A function of `numformer.functional`, such as "softmax", or its backward, such as
        "softmax_backward".
    fn : callable
        A forward takes the arguments of the reference and returns y, or a tuple that begins with y.
        A backward takes the gradient of the output and then the arguments of the forward,
        `fn(dy, x, ...)`, and returns the gradients of the arrays in their order; if its second
        argument is named `saved`, it takes what the reference forward saved. Options such as `axis`
        or `pattern` are tested only if `fn` accepts them.
    seed : int, optional
        Seed of the problems; different ones each time by default.
    levels : sequence of str, optional
        Levels to test, such as ``["plain"]``; all by default.
    seconds : float or None
        Time limit of all calls of `fn` together; None for no limit.
    memory : int or None
        Limit of the bytes that a call of `fn` may need; None for no limit. Linux only.
    process : bool, optional
        Whether `fn` runs in a process of its own, a forked child: then it may crash or end Python,
        loop inside a C function, or change any state. By default it does, but not in a notebook,
        not on macOS and Windows, and not with JAX, TensorFlow or PyTorch loaded, whose threads do
        not survive a fork. In the same process a limit of time can only stop Python code in the
        main thread, and nothing stops `os._exit` or a crash. For a debugger, give
        ``seconds=None, process=False``.

    Returns
    -------
    Verdict
        True or false, and readable: the first gradient that differs and where, both numbers, the
        relative error, and the likely cause. The cause is found by comparing with known mistakes,
        made on purpose. Right means a relative error of at most 1e-9 on these problems, in float64;
        they do not contain special points such as the kink of ReLU.

    Raises
    ------
    ValueError
        If there is no such function, or it has no such level; if the seed is not a whole number of
        at least 0, or a limit not above 0; if there is no process on a system without fork.
    TypeError
        If `fn` cannot be called.

    Examples
    --------
    >>> def softmax_backward(dp, x):
    ...     p = np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)
    ...     return p * dp
    >>> check("softmax_backward", softmax_backward).cause
    'the sum over all weights is missing: softmax_backward is p * (dp - sum(p * dp))'
    """
    name, problem, backward = find_problem(name)
    if not callable(fn):
        raise TypeError(f"check: fn must be a function, but is {type(fn).__name__}.")
    seed = np.random.SeedSequence().entropy % 2**32 if seed is None else seed
    check_whole("check", "seed", seed, least=0)
    for level in levels or ():
        check_choice("check", "level", level, list(problem.levels))
    check_limits(seconds, memory, process)
    verdict, ended = isolated(
        lambda limited: _verdict(name, problem, backward, limited, seed, levels),
        fn, seconds, memory, process)
    return verdict if ended is None else Verdict(False, f"{name}: {ended}.")


def _verdict(name, problem, backward, fn, seed, levels):
    saved = backward and takes_saved(fn)
    passed, left_out = [], []
    for number, level in enumerate(problem.levels):
        if levels and level not in levels:
            continue
        instances = [Instance(problem, level, seed + 100 * number + k) for k in range(INSTANCES)]
        options = instances[0].arguments()[1]
        if not saved and not all(accepts(fn, option) for option in options):
            left_out.append(level)
            continue
        for instance in instances:
            verdict = _compare(name, fn, instance, backward)
            if verdict is not None:
                return _with_levels(verdict, problem, level, passed)
        passed.append(level)
    text = f"right: {name} on {INSTANCES * len(passed)} random problems ({', '.join(passed)})"
    if left_out:
        text += f"; not tested, as it has no such argument: {', '.join(left_out)}"
    return Verdict(True, text + ".")


def _compare(name, fn, instance, backward):
    """None if the function is right on this instance, else a Verdict."""
    outputs, trouble = answer(fn, instance, backward)
    if trouble:
        return Verdict(False, f"{name}: {trouble}.")
    y, _, _, gradients = instance.reference()
    expected = gradients if backward else {"y": y}
    if len(outputs) != len(expected):
        arrays = "array" if len(outputs) == 1 else "arrays"
        return Verdict(False, f"{name}: it returned {len(outputs)} {arrays}, but must return "
                              f"{len(expected)}: {', '.join(expected)}.")
    for key, found in zip(expected, outputs):
        if not is_array(found):
            is_other = isinstance(found, np.ndarray)
            came = f"one of {found.dtype}" if is_other else type(found).__name__
            return Verdict(False, f"{name}: {key} must be an array of float64, like the arguments, "
                                  f"but is {came}.", key)
    for (key, reference), found in zip(expected.items(), outputs):
        wrong = _compare_output(name, key, np.asarray(found), np.asarray(reference))
        if wrong is not None:
            cause = likely_cause(name, lambda other: answer(fn, other, backward)[0], instance, key)
            text = wrong.text + (f"\nLikely cause: {cause}." if cause else "")
            return replace(wrong, text=text, cause=cause)
    return None


def _compare_output(name, key, found, reference):
    """None if an output is right, else a Verdict without a cause."""
    if found.shape != reference.shape:
        return Verdict(False, f"{name}: {key} has shape {found.shape}, but must have "
                              f"{reference.shape}.", key)
    for what, bad in (("NaN", np.isnan(found)), ("Inf", np.isinf(found))):
        if bad.any() and np.isfinite(reference).all():
            index = _first(bad)
            return Verdict(False, f"{name}: {key} contains {what}, first at {index}, where the "
                                  f"reference is {reference[index]:.6g}.", key, index,
                           float(found[index]), float(reference[index]), np.inf)
    error = relative_error(found, reference, np.abs(reference).max(initial=0))
    if not (error > CLOSE).any():
        return None
    index = _first(error > CLOSE)
    n_wrong = int((error > CLOSE).sum())
    text = (f"{name}: {key} is wrong in {n_wrong} of {error.size} entries, first at {index}: found "
            f"{found[index]:.10g}, reference {reference[index]:.10g}, relative error "
            f"{error[index]:.2g}.")
    return Verdict(False, text, key, index, float(found[index]), float(reference[index]),
                   float(error[index]))


def _first(bad):
    return tuple(int(i) for i in np.argwhere(bad)[0]) if bad.ndim else ()


def _with_levels(verdict, problem, level, passed):
    """The verdict with the level at which the function failed, those it passed, and the hint."""
    text = f"{verdict.text}\nLevel of this problem: {level}"
    text += f"; passed before: {', '.join(passed)}." if passed else "."
    return replace(verdict, text=text + (f"\n{problem.note}" if problem.note else ""))
