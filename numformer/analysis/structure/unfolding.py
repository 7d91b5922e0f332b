"""Which calls of an observed call are steps, and which are unfolded into their own statements.

A step is a function with a backward that calls no other, such as `softmax`, or a sublayer. A call
is unfolded where others do its work: ``attend(q, k, v)``, a linear map, a residual branch, the one
sublayer to which a layer hands its work, and a faster way to the same numbers, in whose place the
plain function is shown (`Call.plain`).
"""

import ast

from numformer.layers.blocks.residual import ResidualBranch
from numformer.parameter import Layer

METHODS = ("forward", "backward", "__call__")


def is_unfolded(call, layer, alone):
    """Whether the statements of a call are shown in its place.

    Parameters
    ----------
    call : Call
    layer : Layer
        That is drawn.
    alone : set of int
        From `handed_on`.
    """
    if any(each.plain for each in call.below()):
        return True
    forward = call.globals.get(call.code.co_name.removesuffix("_backward"))
    if hasattr(forward, "same_as"):
        return False
    if call.layer is not None and call.layer is not layer and call.code.co_name in METHODS:
        if call.code.co_name == "backward" and call.only_calls == "linear_backward":
            return False                              # its formula can be part of a sum
        return _is_wiring(call) or call.only_calls == "linear" or (
            id(call.layer) in alone and any(each.is_pair for each in _inner(call)))
    return any(each.is_pair if call.is_pair else _is_step(each) for each in _inner(call))


def is_step_of_a_loop(call):
    """Whether a call in a loop is the step that is repeated, whose statements are shown."""
    return call.is_pair and call.code.co_name.removesuffix("_backward").endswith("_step")


def _is_wiring(call):
    return isinstance(call.layer, ResidualBranch)     # no step, but what connects steps


def handed_on(call, layer):
    """The ids of sublayers to which a call hands its work, as there is one alone."""
    calls = list(_sublayers(call, layer))
    if len({id(each.layer) for each in calls}) != 1 or _is_wiring(call):
        return set()
    return {id(calls[0].layer)} | handed_on(calls[0], calls[0].layer)


def _sublayers(call, layer):
    """The calls of sublayers that are steps of a call, without linear maps."""
    for visit in call.visits:
        for each in visit.calls:
            own = each.layer is None or each.layer is layer or each.code.co_name not in METHODS
            if own or _is_wiring(each):
                yield from _sublayers(each, layer)
            elif each.only_calls not in ("linear", "linear_backward") and any(_inner(each)):
                yield each


def _inner(call):
    """All calls below a call, without itself."""
    return (each for each in call.below() if each is not call)


def _is_step(call):
    return call.is_pair or call.layer is not None and call.code.co_name in METHODS


def calls(node):
    """The calls of an expression, from the inside out, in the order in which they run."""
    for child in ast.iter_child_nodes(node):
        yield from calls(child)
    if isinstance(node, ast.Call):
        yield node


def matching(visit, call):
    """A function from the node of a call to the `Call` that was observed."""
    found, rest = {}, list(visit.calls)
    for node in calls(visit.statement):
        names = _names_of(node.func, visit.before, call.globals)
        for place, each in enumerate(rest):
            if each.code.co_name in names:
                found[id(node)] = each
                del rest[:place + 1]
                break
    return lambda node: found.get(id(node))


def _names_of(function, variables, outer):
    """What the code of a called function may be named."""
    names = {getattr(function, "attr", getattr(function, "id", ""))}
    if not any(isinstance(each, ast.Call) for each in ast.walk(function)):
        try:
            value = eval(compile(ast.Expression(function), "", "eval"), outer | variables)
        except Exception:
            value = None
        names.add(getattr(value, "__name__", ""))
        if isinstance(value, Layer):
            names.add("__call__")
    return names | {name.removesuffix("_accumulate") for name in names}
