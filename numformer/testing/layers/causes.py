"""Why a module differs from our layer: the setting of our layer that would make them equal."""

import copy
import inspect
import math
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np

from numformer.functional.activations.table import ACTIVATIONS
from numformer.functional.attention.masks import CAUSAL, EVERYWHERE, AttentionPattern
from numformer.verify.tensors import resolved

EPSILONS = (1e-5, 1e-6, 1e-8, 1e-12, 1e-3, 1e-7, 0.0)
MOST = 100_000                                        # numbers of a layer that is run for pairs


def other_setting(layer, options, inputs, error_of, close):
    """The setting, or two, with which our layer has the y of a module, in words; "" if none has.

    Parameters
    ----------
    layer : Layer
    options : dict, or callable that makes one
        Of its forward.
    inputs : list of ndarray
    error_of : callable
        Takes a layer, options, inputs, and a function of y; returns the largest relative error.
    close : float
        Of it, of a setting that is the cause.
    """
    changes = list(_changes(layer, resolved(options), inputs))

    def error(*made):
        subject = Subject(copy.deepcopy(layer), resolved(options), list(inputs), lambda y: y)
        if not all([change.make(subject) for change in made]):
            return np.inf
        try:
            return error_of(subject.layer, subject.options, subject.inputs, subject.output)
        except (ValueError, TypeError, IndexError, AttributeError):
            return np.inf                             # a setting that this layer cannot have
    worst, change = min(((error(change), change) for change in changes), default=(np.inf, None),
                        key=lambda pair: pair[0])
    if worst <= close:
        return change.words
    size = sum(p.data.size for _, p in layer.named_parameters()) + sum(map(np.size, inputs))
    for one, two in combinations(changes, 2) if size <= MOST else ():
        if one.kind != two.kind and error(one, two) <= close:
            return f"two: {one.words}; {two.words}"
    return ""


@dataclass
class Subject:
    """What runs: our layer, its options and inputs, and what is made of its y."""

    layer: object
    options: dict
    inputs: list
    output: object


@dataclass
class Change:
    """Another setting: its kind, in words, and a function that makes it, which returns whether."""

    kind: str
    words: str
    make: object


def _changes(layer, options, inputs):
    """Every `Change` that is tried."""
    given = options.get("pattern", EVERYWHERE)

    def pattern(other, words):
        def make(subject):
            subject.options = {**subject.options, "pattern": other}
            return True
        return Change("pattern", words, make)

    if "pattern" in inspect.signature(layer.forward).parameters:
        for other, words in ((CAUSAL, "causal"), (EVERYWHERE, "not causal")):
            if given is not other:
                yield pattern(other, f"the module's attention is {words}")
        if given is not EVERYWHERE and isinstance(given, AttentionPattern) and inputs[0].ndim > 1:
            T, S = inputs[0].shape[1], inputs[-1].shape[1]
            yield pattern(AttentionPattern(mask=~given.dense(T, S)),
                          "the module's mask is inverted: True and False are exchanged")
    for name, values in _settings(layer):
        for value in values:
            words = f"in the module, {name} is {_spelled(value)}{_ours(layer, name)}"
            yield Change(name, words, partial(_set, name, value))
    if any(hasattr(part, "d_head") and hasattr(part, "output") for _, part in layer.named_layers()):
        yield Change("merge", "the module merges (B, H, T, D) to (B, T, H D) by reshape alone: the "
                     "axes of heads and positions must be exchanged before", _merge_without_axes)
    if inputs[0].ndim == 3:
        yield Change("batch", "the module takes (T, B, C), and (B, T, C) came in: give "
                     "batch_first=True, or transpose in call=", _positions_first)


def _set(name, value, subject):
    return _change(subject.layer, name, value)


def _positions_first(subject):
    subject.inputs = [x.swapaxes(0, 1) if x.ndim > 1 else x for x in subject.inputs]
    subject.output = lambda y: y.swapaxes(0, 1)
    return True


def _merge_without_axes(subject):
    for _, part in subject.layer.named_layers():
        if hasattr(part, "d_head") and hasattr(part, "n_heads") and hasattr(part, "output"):
            kind, H = type(part.output), part.n_heads

            def forward(self, x, kind=kind, H=H):
                B, T, width = x.shape
                x = x.reshape(B, T, H, width // H).swapaxes(1, 2).reshape(B, T, width)
                return kind.forward(self, x)
            part.output.__class__ = type(kind.__name__, (kind,), {"forward": forward})
    return True


def _settings(layer):
    """(name, values to try) of the settings of all sublayers."""
    names = {name for _, part in layer.named_layers() for name in vars(part)}
    widths = {part.d_head for _, part in layer.named_layers() if hasattr(part, "d_head")}
    orders = {part.order for _, part in layer.named_layers() if hasattr(part, "order")}
    if orders and orders <= {"pre", "post"}:
        yield "order", ["pre", "post"]
    if "epsilon" in names:
        yield "epsilon", EPSILONS
    if "activation" in names:
        yield "activation", list(ACTIVATIONS)
    if "scale" in names:
        yield "scale", [None, 1.0, *(1 / width for width in widths), *(
            1 / math.sqrt(part.n_heads * part.d_head) for _, part in layer.named_layers()
            if hasattr(part, "d_head") and hasattr(part, "n_heads"))]
    if "n_heads" in names and "d_head" in names:
        yield "n_heads", [n for n in (1, 2, 3, 4, 6, 8, 12, 16)]
    if "gates_over" in names:
        yield "k", range(1, 1 + max(len(part.experts) for _, part in layer.named_layers()
                                    if hasattr(part, "gates_over")))
    for name, values in (("gates_over", ["chosen", "all"]), ("layout", ["half", "interleaved"]),
                         ("base", [1e4, 5e5, 1e6, 1e5]), ("reset_after", [True, False]),
                         ("reverse", [True, False])):
        if name in names:
            yield name, values


def _change(layer, name, value):
    """Give every sublayer that has this setting another value; whether any was changed."""
    changed = False
    for _, part in layer.named_layers():
        own = vars(part)
        if name not in own or own[name] == value or isinstance(own[name], bool) != isinstance(
                value, bool):
            continue
        if name == "order":                           # the norm is before the sublayer, or after it
            own["input_norm"], own["sum_norm"] = own["sum_norm"], own["input_norm"]
            own["order"], changed = value, True
        elif name == "n_heads":
            changed |= _other_heads(part, value)
        elif name == "base" and "angles" in own:      # which follow from the base
            vars(part).update(vars(type(part)(
                part.d_head, value, part.layout, part.d_rotary, part.scaling)))
            changed = True
        elif name != "base":
            own[name] = value
            changed = True
    return changed


def _other_heads(part, n):
    """Cut the same width into another number of heads, where all have one of their own."""
    width = part.n_heads * part.d_head
    if width % n or part.n_kv_heads != part.n_heads or part.d_value != part.d_head:
        return False
    part.n_heads = part.n_kv_heads = n
    part.d_head = part.d_value = width // n
    return True


def _spelled(value):
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


def _ours(layer, name):
    """What ours has, in words."""
    values = list(dict.fromkeys(_spelled(vars(part)[name]) for _, part in layer.named_layers()
                                if name in vars(part)))
    return f", and {' or '.join(values)} here" if values else ""
