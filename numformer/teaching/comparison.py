"""Compare what a student's function returned with the reference, entry by entry."""

import numpy as np

from numformer.teaching.apart.messages import Strange
from numformer.teaching.rounding import sizes_of_terms
from numformer.teaching.verdict import Verdict
from numformer.verify.errors import relative_error

CLOSE = {np.float64: 1e-9, np.float32: 1e-5}          # relative error of a right answer
EPSILON = {np.float64: 2.0 ** -52, np.float32: 2.0 ** -23}    # np.finfo's could be changed
ROUNDINGS = 300                                       # as many errors of the precision are allowed
STRANGE = {
    "matrix": "for which * is the matrix product; return np.asarray(...) of it",
    "MaskedArray": "which hides numbers; fill it with .filled(0), or work without masked arrays"}


def strange_output(name, outputs, expected, instance):
    """None if these are as many arrays of floats as the reference returns, else a Verdict.

    Parameters
    ----------
    name : str
        Of the function.
    outputs : tuple
        What it returned: arrays of floats, numbers, None and `Strange`.
    expected : dict of str to ndarray
        What the reference returns.
    instance : Instance
        Where both ran.
    """
    dtype = instance.problem.levels[instance.level].dtype
    if len(outputs) != len(expected):
        arrays = "array" if len(outputs) == 1 else "arrays"
        return Verdict(False, f"{name}: it returned {len(outputs)} {arrays}, but must return "
                              f"{len(expected)}: {', '.join(expected)}.")
    for key, found in zip(expected, outputs):
        trouble = no_array(found, dtype)
        if trouble:
            return Verdict(False, f"{name}: {key} must be {trouble}.", key)
    return None


def wrong_output(name, outputs, expected, instance):
    """None if all outputs are right, else a Verdict on the first that is wrong, without a cause.

    The parameters are those of `strange_output`, which found nothing.
    """
    level = instance.problem.levels[instance.level]
    dtype, close = level.dtype, level.close or CLOSE[level.dtype]

    def allowed(key):
        y, gradients = sizes_of_terms(instance)
        terms = y if key == "y" else gradients[key]
        return ROUNDINGS * EPSILON[dtype] * (1 + terms)   # 1: as in tanh x = 2 sigmoid(2x) - 1

    for (key, reference), found in zip(expected.items(), outputs):
        wrong = wrong_array(name, key, np.asarray(found, float), np.asarray(reference),
                            close, allowed)
        if wrong is not None:
            return wrong
    return None


def are_different(name, first, second, instance):
    """The name of the first output of two calls that differs by more than rounding; "" if none.

    Parameters
    ----------
    name : str
        Of the function.
    first, second : dict of str to ndarray
        What it returned.
    instance : Instance
        On which it was called twice.
    """
    for key, x in first.items():
        x, again = np.asarray(x, float), np.asarray(second[key], float)
        if x.shape != again.shape:
            return key
        equal = (x == again) | np.isnan(x) & np.isnan(again)
        x, again = ({key: np.where(equal, 0, array)} for array in (x, again))
        if not equal.all() and wrong_output(name, again.values(), x, instance) is not None:
            return key                                # a Verdict on a difference is false
    return ""


def is_upcast(outputs, instance):
    """Whether arrays of float64 came out where float32 went in."""
    return (instance.problem.levels[instance.level].dtype == np.float32
            and any(isinstance(x, np.ndarray) and x.dtype == np.float64 for x in outputs))


def no_array(found, dtype):
    """What an output must be, and what it is; "" if it is an array of floats, or a number."""
    if isinstance(found, Strange) and not found.came:
        kind = found.kind
        return (f"a plain array of NumPy, but is a {kind}"
                + (f", {STRANGE[kind]}" if kind in STRANGE else "; return np.asarray(...) of it"))
    if isinstance(found, float) or (isinstance(found, (np.ndarray, np.floating))
                                    and found.dtype in (dtype, np.float64)):
        return ""
    came = (found.came if isinstance(found, Strange) else f"one of {found.dtype}"
            if isinstance(found, np.ndarray) else type(found).__name__)
    return f"an array of {np.dtype(dtype)}, like the arguments, but is {came}"


def wrong_array(name, key, found, reference, close, allowed):
    """None if an output is right, else a Verdict."""
    if found.shape != reference.shape:
        return Verdict(False, f"{name}: {key} has shape {found.shape}, but must have "
                              f"{reference.shape}.", key)
    for what, bad in (("NaN", np.isnan(found)), ("Inf", np.isinf(found))):
        if bad.any():                                 # the reference is finite, says `Instance`
            index = _first(bad)
            return Verdict(False, f"{name}: {key} contains {what}, first at {index}, where the "
                                  f"reference is {reference[index]:.6g}.", key, index,
                           float(found[index]), float(reference[index]), np.inf)
    error = relative_error(found, reference, np.abs(reference).max(initial=0))
    wrong = error > close
    if wrong.any():                                  # or are these rounding errors?
        wrong &= ~(np.abs(found - reference) <= allowed(key))
    if not wrong.any():
        return None
    index = _first(wrong)
    one, other = float(found[index]), float(reference[index])
    error = abs(one - other) / abs(other) if other else np.inf
    shown = f", relative error {error:.2g}" if other else ""
    text = (f"{name}: {key} is wrong in {wrong.sum()} of {wrong.size} entries, first at {index}: "
            f"found {one:.10g}, reference {other:.10g}{shown}.")
    return Verdict(False, text, key, index, one, other, error)


def _first(bad):
    return tuple(int(i) for i in np.argwhere(bad)[0]) if bad.ndim else ()
