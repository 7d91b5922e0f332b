"""Why a module differs from our layer: the setting of our layer that would make them equal."""

import copy
import math

import numpy as np

from numformer.functional.activations.table import ACTIVATIONS
from numformer.functional.attention.masks import CAUSAL, EVERYWHERE
from numformer.verify.tensors import resolved

EPSILONS = (1e-5, 1e-6, 1e-8, 1e-12, 1e-3, 1e-7, 0.0)


def other_setting(layer, options, error_of, close):
    """The setting with which our layer comes closest to a module, in words; "" if none is close.

    Parameters
    ----------
    layer : Layer
    options : dict, or callable that makes one
        Of its forward.
    error_of : callable
        Takes a layer and options, and returns the largest relative error of y.
    close : float
        Of it, of a setting that is the cause.
    """
    found, given = [], resolved(options)
    for pattern, words in ((CAUSAL, "causal"), (EVERYWHERE, "not causal")):
        if given.get("pattern", EVERYWHERE) is not pattern:
            found.append((_error(layer, {**given, "pattern": pattern}, error_of),
                          f"the module's attention is {words}"))
    for name, values in _settings(layer):
        for value in values:
            other = copy.deepcopy(layer)
            if _change(other, name, value):
                words = f"in the module, {name} is {_spelled(value)}{_ours(layer, name)}"
                found.append((_error(other, options, error_of), words))
    error, words = min(found, default=(np.inf, ""))
    return words if error <= close else ""


def _error(layer, options, error_of):
    try:
        return error_of(layer, options)
    except (ValueError, TypeError, IndexError, AttributeError):
        return np.inf                                 # a setting that this layer cannot have


def _settings(layer):
    """(name, values to try) of the settings of all sublayers."""
    names = {name for _, part in layer.named_layers() for name in vars(part)}
    widths = {part.d_head for _, part in layer.named_layers() if hasattr(part, "d_head")}
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
    for name, values in (("layout", ["half", "interleaved"]),
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
        if name == "n_heads":
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
