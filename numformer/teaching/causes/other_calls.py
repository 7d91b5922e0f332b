"""The reference called in another way: an option ignored, arguments exchanged, a sibling."""

import inspect
from dataclasses import replace
from itertools import combinations, product
from types import FunctionType

import numpy as np

from numformer import functional as F
from numformer.specifications import versions

FAMILIES = [
    ("gelu", "gelu_tanh", "silu", "sigmoid", "relu", "relu_squared"),
    ("swish", "silu", "quick_gelu", "sigmoid"), ("softmax", "log_softmax"),
    ("layer_norm", "layer_norm_outside", "batch_norm"), ("rms_norm", "rms_norm_outside"),
    ("top_k_gates", "top_k_gates_over_all"), ("gru_cell", "gru_cell_reset_before"),
    ("dot_scores", "scaled_dot_scores"), ("mean_pooling", "max_pooling")]
CONSTANTS = {"epsilon": (0.0, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-12),
             "axis": (-1, 0, 1, -2),
             "beta": (1.0, 1.702), "rate": (0.5,), "margin": (0.0, 1.0), "cap": (1.0,),
             "max_distance": (128,)}
OF_THE_WIDTH = {                                       # epsilon elsewhere, C = x.shape[-1]
    "epsilon / C": lambda epsilon, C: epsilon / C,
    "epsilon / sqrt(C)": lambda epsilon, C: epsilon / C ** 0.5,
    "C * epsilon": lambda epsilon, C: epsilon * C,
    "epsilon ** 2": lambda epsilon, C: epsilon * epsilon,
    "sqrt(epsilon)": lambda epsilon, C: epsilon ** 0.5}
UNSCALED = ("general_scores", "dot_scores")


def other_calls(evidence):
    """(cost, cause, make) of every other way to call the reference.

    Where an argument or option that it is about was not given, as on an earlier level, the
    reference itself must give the student's numbers.
    """
    for cost, cause, make in _all_calls(evidence):
        def or_reference(case, make=make):
            try:
                return make(case)
            except (KeyError, TypeError):                 # not given here, or None
                return _call(evidence, case)
        yield cost, cause, or_reference


def _all_calls(evidence):
    yield from _siblings(evidence)
    yield from _other_options(evidence)
    yield from _other_arguments(evidence)
    for cause, change in _CHANGES.items() if evidence.backward else ():
        if "order" in cause:
            yield 3, cause.format("dy"), lambda case, change=change: _call(
                evidence, case, dy=change(case.dy))
    if evidence.backward:
        yield (1, "dy is not used: the gradient of the output must be a factor of every gradient",
               lambda case: _call(evidence, case, dy=np.ones(np.shape(case.dy))[()]))


def _call(evidence, case, dy=None, function=None, arguments=(), options=(), written=None):
    """The outputs of the reference, or of a textbook's version, with other arguments."""
    given, more = case.inputs()
    given.update(arguments)
    more.update(options)
    if written:
        return written(*[case.dy] * evidence.backward, *given.values(), **more)
    function = function or evidence.problem.function.__name__
    y, saved = getattr(F, function)(*given.values(), **more)
    if not evidence.backward:
        return y
    return getattr(F, f"{function}_backward")(case.dy if dy is None else dy, saved)


def _siblings(evidence):
    base = evidence.name.removesuffix("_backward")
    end = "_backward" * evidence.backward
    siblings = (name for family in FAMILIES if base in family for name in family if name != base)
    for sibling in dict.fromkeys(siblings):
        cause = f"these are the numbers of {sibling}{end}, another function"
        if sibling == f"{base}_outside":
            cause = f"epsilon is added outside the root, as in {sibling}, but must be inside"
        yield (1, cause,
               lambda case, sibling=sibling: _call(evidence, case, function=sibling))


def _other_options(evidence):
    case, function = evidence.cases[0], evidence.problem.function
    defaults = {name: parameter.default
                for name, parameter in inspect.signature(function).parameters.items()
                if parameter.default is not parameter.empty}
    for name in case.options:
        if name in defaults:
            yield (1, f"the option {name} is ignored",
                   lambda case, name=name: _call(evidence, case, options={name: defaults[name]}))
    for name, values in CONSTANTS.items():
        if name in defaults or name in case.arguments:
            for value in values:
                yield (2, f"as if {name} were {value:g}",
                       lambda case, name=name, value=value: _call(
                           evidence, case, **_set(case, name, value)))
    if "epsilon" in defaults and "x" in case.arguments:
        for formula, change in OF_THE_WIDTH.items():
            yield (2, f"as if epsilon were {formula}, with C = x.shape[-1]",
                   lambda case, change=change: _call(evidence, case, options={"epsilon": change(
                       case.options.get("epsilon", defaults["epsilon"]),
                       case.arguments["x"].shape[-1])}))
    if "scale" in defaults:
        for formula, scale in _SCALES.items():
            yield (2, f"the scores are multiplied by {formula}",
                   lambda case, scale=scale: _call(
                       evidence, case, options={"scale": _scale_of(scale, case)}))
    if "label_smoothing" in case.options:
        def spread(case):
            V = case.arguments["logits"].shape[-1]
            wider = case.options["label_smoothing"] * V / (V - 1)
            return _call(evidence, case, options={"label_smoothing": wider})
        yield 1, ("the smoothing is divided among the V - 1 other classes, but must be divided "
                  "among all V"), spread
        yield 1, "label_smoothing and 1 - label_smoothing are exchanged", lambda case: _call(
            evidence, case, options={"label_smoothing": 1 - case.options["label_smoothing"]})
    if "rate" in case.arguments:
        yield 1, "rate and 1 - rate are exchanged", lambda case: _call(
            evidence, case, arguments={"rate": 1 - case.arguments["rate"]})
    for name, now in {**defaults, **case.arguments, **case.options}.items():
        if not isinstance(now, str):
            continue
        for other in sorted(_texts(evidence, name, now) - {now}):
            yield 2, f"as if {name} were {other!r}", lambda case, name=name, other=other: _call(
                evidence, case, **_set(case, name, other))
            yield (2, f"as if {name} {now!r} were {other!r}",
                   lambda case, name=name, now=now, other=other: _call(
                       evidence, case, **_instead(case, name, now, other, defaults)))
    if "softcap" in case.options:
        def cap_first(case):
            scale = case.options.get("scale") or case.arguments["q"].shape[-1] ** -0.5
            return _call(evidence, case, options={"softcap": case.options["softcap"] * scale})
        yield 1, "the soft cap comes before the scale, but must come after it", cap_first
    if "pattern" in case.options or "pattern" in case.arguments:
        for cause, change in _RULES.items():
            yield 1, cause, lambda case, change=change: _call(evidence, case, **_set(
                case, "pattern", change(_given(case, "pattern"))))
    for place in ("pattern", "mask"):
        if place in case.options or place in case.arguments:
            written = versions(evidence.name)             # empty rows come out otherwise
            functions = (None, *written, *map(_with_infinities, written))
            for (cause, change), function in product(_MASKS.items(), functions):
                yield (1, cause, lambda case, place=place, change=change, function=function:
                       _call(evidence, case, written=function,
                             **_other_mask(case, place, change)))


def _with_infinities(version):
    """A textbook's version that masks by -Inf in place of -1e30: an empty row is NaN."""
    code = version.__code__
    code = code.replace(co_consts=tuple(
        -np.inf if constant == -1e30 else constant for constant in code.co_consts))
    return FunctionType(code, version.__globals__, version.__name__, version.__defaults__)


def _set(case, name, value):
    return {"arguments" if name in case.arguments else "options": {name: value}}


def _instead(case, name, now, other, defaults):
    """Another text, where it is this one that is given."""
    given = {**defaults, **case.arguments, **case.options}[name]
    return _set(case, name, other) if given == now else {}


def _given(case, name):
    return {**case.arguments, **case.options}[name]


def _texts(evidence, name, now):
    """The texts that an option has in any case, or now: a family of choices."""
    found = {now, *(case.options.get(name) for case in [*evidence.cases, *evidence.others])}
    found = {value for value in found if isinstance(value, str)}
    choices = [set(table) for table in (F.ACTIVATIONS, F.GATED) if found & set(table)]
    return found.union(*choices)


def _window(by_left, by_right):
    """A change of a pattern's window by these numbers."""
    def change(pattern):
        left, right = pattern.window or (None, None)
        if pattern.window is None:
            raise KeyError("window")
        return replace(pattern, window=(
            None if left is None else max(0, left + by_left),
            None if right is None else max(0, right + by_right)))
    return change


def _without(rule, nothing):
    def change(pattern):
        if not getattr(pattern, rule) is not nothing:
            raise KeyError(rule)
        return replace(pattern, **{rule: nothing})
    return change


_RULES = {
    "the causal rule of the pattern is ignored": _without("causal", False),
    "the window of the pattern is ignored": _without("window", None),
    "the lengths of the pattern are ignored: padding is attended to": _without("lengths", None),
    "the documents of the pattern are ignored": _without("documents", None),
    "the mask of the pattern is ignored": _without("mask", None),
    "the window is one key too short on the left": _window(-1, 0),
    "the window is one key too long on the left": _window(1, 0),
    "the window is one key too short on the right": _window(0, -1),
    "the window is one key too long on the right": _window(0, 1),
    "the window is one key too long on both sides": _window(1, 1),
    "the window is one key too short on both sides": _window(-1, -1),
}


_SCALES = {
    "1, not by 1 / sqrt(D)": lambda q, k, v, scale: 1.0,
    "1 / D, not by 1 / sqrt(D)": lambda q, k, v, scale: 1 / q[-1],
    "sqrt(D), not by 1 / sqrt(D)": lambda q, k, v, scale: q[-1] ** 0.5,
    "1 / sqrt(H D), but D, the width of one head, is meant":
        lambda q, k, v, scale: (q[1] * q[-1]) ** -0.5,
    "1 / sqrt(T), not by 1 / sqrt(D)": lambda q, k, v, scale: q[2] ** -0.5,
    "1 / sqrt(S), not by 1 / sqrt(D)": lambda q, k, v, scale: k[2] ** -0.5,
    "1 / sqrt(D_V), of the width of the values, not by 1 / sqrt(D)":
        lambda q, k, v, scale: v[-1] ** -0.5,
    "1 / scale, not by scale": lambda q, k, v, scale: 1 / scale,
    "scale / sqrt(D), but scale stands for 1 / sqrt(D)":
        lambda q, k, v, scale: scale * q[-1] ** -0.5,
}


def _before(mask):
    """Like `mask`, but no query sees its own position: the last allowed key of each row is hidden.

    """
    last = mask.shape[-1] - 1 - mask[..., ::-1].argmax(axis=-1)
    return mask & (np.arange(mask.shape[-1]) != last[..., None])


def _from_the_start(mask):
    T, S = mask.shape[-2:]
    return np.broadcast_to(np.tri(T, S, dtype=bool), mask.shape)


_MASKS = {
    "the mask is the opposite: True means that a position counts": lambda mask: ~mask,
    "the current position is masked too: a position may attend to itself": _before,
    "the causal mask is aligned at the first key, but the last query is at the last key":
        _from_the_start,
    "the mask hides the past, not the future":
        lambda mask: mask[..., ::-1, ::-1],
    "the mask lets every query see one position too many":
        lambda mask: mask | np.roll(mask, 1, axis=-1) & (np.arange(mask.shape[-1]) > 0),
}


def _other_mask(case, place, change):
    if place == "mask":
        part = "arguments" if "mask" in case.arguments else "options"
        return {part: {"mask": change(getattr(case, part)["mask"])}}
    part = "arguments" if "pattern" in case.arguments else "options"
    T, S = case.arguments["q"].shape[2], case.arguments["k"].shape[2]
    mask = change(getattr(case, part)["pattern"].dense(T, S))
    return {part: {"pattern": F.AttentionPattern(mask=mask)}}


def _other_arguments(evidence):
    case = evidence.cases[0]
    arrays = [name for name, value in case.arguments.items() if isinstance(value, np.ndarray)
              and value.dtype.kind == "f"]
    for a, b in combinations(arrays, 2):
        if case.arguments[a].shape == case.arguments[b].shape:
            yield 1, f"{a} and {b} are exchanged", lambda case, a=a, b=b: _call(
                evidence, case, arguments={a: case.arguments[b], b: case.arguments[a]})
    for name in arrays:
        if name == "bias" or name.endswith("_bias"):
            yield 1, f"{name} is not added", lambda case, name=name: _call(
                evidence, case, arguments={name: 0 * case.arguments[name]})
        if name == "weight":
            yield 1, f"{name} is not used", lambda case, name=name: _call(
                evidence, case, arguments={name: np.ones_like(case.arguments[name])})
        if evidence.backward:
            continue
        axes = range(case.arguments[name].ndim)
        for cause, change in _CHANGES.items():
            yield 3, cause.format(name), lambda case, name=name, change=change: _call(
                evidence, case, arguments={name: change(case.arguments[name])})
        for axis, (cause, change) in product(axes, _ALONG.items()):
            yield (3, cause.format(name, axis),
                   lambda case, name=name, axis=axis, change=change: _call(
                       evidence, case, arguments={name: change(case.arguments[name], axis)}))
    for name, value in case.arguments.items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "i" and not evidence.backward:
            for cause, change in _OF_WHOLE_NUMBERS.items():
                yield 3, cause.format(name), lambda case, name=name, change=change: _call(
                    evidence, case, arguments={name: change(case.arguments[name])})
    if evidence.name in UNSCALED:
        yield 1, "the scores are divided by sqrt(D), but these are not scaled", lambda case: _call(
            evidence, case, arguments={"q": case.arguments["q"] * case.arguments["q"].shape[-1]
                                       ** -0.5})
    elif not evidence.backward and "scale" not in inspect.signature(
            evidence.problem.function).parameters and {"q", "k"} <= case.arguments.keys():
        for formula, scale in _SCALES.items():
            yield 2, f"the scores are multiplied by {formula}", lambda case, scale=scale: _call(
                evidence, case, arguments={"q": case.arguments["q"] * _relative(scale, case)})


def _relative(scale, case):
    """A scale relative to 1 / sqrt(D), which a function without this option has."""
    return _scale_of(scale, case) * case.arguments["q"].shape[-1] ** 0.5


def _scale_of(scale, case):
    q, k, v = (case.arguments[name].shape if name in case.arguments else None for name in "qkv")
    return scale(q, k, v or k, case.options.get("scale"))


def _moved(x, axis, by):
    """x moved along an axis, with zeros where nothing comes from."""
    moved = np.roll(x, by, axis)
    index = [slice(None)] * x.ndim
    index[axis] = 0 if by > 0 else -1
    moved[tuple(index)] = 0
    return moved


def _transposed(x):
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError("not square")
    return x.swapaxes(-1, -2).copy()


_CHANGES = {
    "{} is transposed": _transposed,
    "the sign of {} is wrong": np.negative,
    "as if {0} were 1 + {0}": lambda x: 1 + x,
    "negative numbers of {} count as 0": lambda x: np.maximum(x, 0),
    "{} is read column by column, as with order='F'": lambda x: x.ravel("F").reshape(x.shape),
    "{} is written column by column, as with order='F'": lambda x: x.ravel().reshape(
        x.shape, order="F"),
    "the vectors of {} are taken column by column, as by a reshape with order='F'":
        lambda x: x.reshape(-1, x.shape[-1], order="F").reshape(x.shape),
    "{0} is used twice: as if {0} were 2 {0}": lambda x: 2 * x,
}
_ALONG = {
    "{} is read in reverse along axis {}": np.flip,
    "along axis {1}, the previous entry of {0} is used": lambda x, axis: _moved(x, axis, 1),
    "along axis {1}, the next entry of {0} is used": lambda x, axis: _moved(x, axis, -1),
    "along axis {1}, the previous entry of {0} is used, and the last at the start":
        lambda x, axis: np.roll(x, 1, axis),
    "along axis {1}, the next entry of {0} is used, and the first at the end":
        lambda x, axis: np.roll(x, -1, axis),
    "only the first entry of {} along axis {} is used": lambda x, axis: np.repeat(
        x.take([0], axis), x.shape[axis], axis),
    "the mean of {} over axis {} is used for each entry": lambda x, axis: np.broadcast_to(
        x.mean(axis=axis, keepdims=True), x.shape).copy(),
}
_OF_WHOLE_NUMBERS = {
    "{} is off by one: too large": lambda x: x + 1, "{} is off by one: too small": lambda x: x - 1,
    "{} is read column by column, as with order='F'": lambda x: x.ravel("F").reshape(x.shape),
}
