"""A copy of `minimal.py` with other functions in the place of its own.

The page knows nothing of this: its source is executed again, as a module of its own, and names of
that module are set. What it does in a line, the lookup of embeddings, is a call in the copy, and
so is top-p, which it does not do: a sample is chosen among the most likely characters.
"""

import inspect
from types import FunctionType, ModuleType

import numpy as np

from numformer import functional, minimal
from numformer.functional.softmax import count_of_top_p
from numformer.teaching.assembled.parts import ACTIVATIONS, PAIRS, PARTS, TOP_P

# line of minimal.py: the same with a call
LINES = {
    "    x = embedding[ids] +": "    x = embedded(ids, embedding) +",
    "    np.add.at(dembedding, ids, dx)\n":
        "    dembedding = dembedding + embedded_backward(dx, ids, dembedding)\n",
    "        probabilities = softmax(logits[0, -1].astype(np.float64) / temperature)":
        "        probabilities = likely(softmax(logits[0, -1].astype(np.float64) / temperature))"}


class FunctionFailed(Exception):
    """A student's function did not return; the text names it and says why."""


def assembled_model(functions=(), activation="gelu_tanh", **sizes):
    """A module such as `numformer.minimal`, with functions of a student.

    Parameters
    ----------
    functions : dict of str to callable
        By the names of the exercises, such as "linear_backward".
    activation : str
        Of the MLP: that which the exercises ask for.
    **sizes : int
        Names of minimal.py with other values, such as ``WIDTH=32``.

    Returns
    -------
    module

    Examples
    --------
    >>> gpt = assembled_model({"softmax": lambda x: np.full_like(x, 0.5)}, WIDTH=32)
    >>> gpt.softmax(np.zeros(2)), gpt.WIDTH, minimal.WIDTH
    (array([0.5, 0.5]), 32, 128)
    """
    gpt = ModuleType("assembled", minimal.__doc__)
    gpt.embedded, gpt.embedded_backward, gpt.likely = _embedded, _embedded_backward, _likely
    exec(compile(_source(), minimal.__file__, "exec"), vars(gpt))
    vars(gpt).update(sizes)
    if activation not in ACTIVATIONS[:1]:             # the first is that of minimal.py
        gpt.gelu = getattr(functional, activation)
        gpt.gelu_backward = getattr(functional, f"{activation}_backward")
    yours = {}
    for name, function in dict(functions).items():
        place, called = PARTS[name]
        if place in ("block", "block_backward"):
            function = _with_layers(gpt, function)
        yours[place] = called(_in_one_dtype(name, function))
    for place in PAIRS:
        backward = f"{place}_backward"
        if place in yours or backward in yours:
            more = (gpt.HEADS,) if place == "attention" else ()
            setattr(gpt, place, _forward(gpt, place, yours, more))
            setattr(gpt, backward, _backward(gpt, backward, yours, more))
    if "block" in yours:
        gpt.block = _with_saved(gpt.block, yours.pop("block"))
    for place in set(yours) - {each for name in PAIRS for each in (name, f"{name}_backward")}:
        setattr(gpt, place, yours[place])
    return gpt


def _with_saved(ours, theirs):
    """A student's block, which saves nothing; the backward needs what ours saves."""
    return lambda x, p, i: (theirs(x, p, i), ours(x, p, i)[1])


def _with_layers(gpt, function):
    """A student's block, which has its layers from minimal.py, with the model in its place."""
    return FunctionType(function.__code__, {**function.__globals__, "minimal": gpt},
                        function.__name__, function.__defaults__, function.__closure__)


def _source():
    source = inspect.getsource(minimal)
    for line, with_call in LINES.items():
        assert source.count(line) == 1, f"minimal.py has no line {line!r} any more"
        source = source.replace(line, with_call)
    return source


def _embedded(ids, weight):
    return functional.embedding(ids, weight)[0]


def _embedded_backward(dy, ids, weight):
    return functional.embedding_backward(dy, (ids, len(weight)))


def _likely(p):
    """Top-p, as exercise 38 has it."""
    order = np.argsort(-p)
    kept = p.copy()
    kept[order[count_of_top_p(p[order], TOP_P)[0]:]] = 0
    return kept / kept.sum()


def _forward(gpt, place, yours, more):
    """A forward of minimal.py; it saves its inputs, and for a backward of ours what that needs."""
    ours, theirs = getattr(gpt, place), yours.get(place)

    def forward(*inputs):
        saved = None
        if theirs is None or f"{place}_backward" not in yours:
            y, saved = ours(*inputs)
        if theirs is not None:
            y = theirs(*inputs, *more)
        return y, (inputs, saved)
    return forward


def _backward(gpt, place, yours, more):
    """A backward of minimal.py, which takes what `_forward` saved."""
    ours, theirs = getattr(gpt, place), yours.get(place)

    def backward(*arguments):
        *dy, (inputs, saved) = arguments              # there is no dy for the loss
        return ours(*dy, saved) if theirs is None else theirs(*dy, *inputs, *more)
    return backward


def _in_one_dtype(name, function):
    """A student's function whose outputs have the dtype of its inputs, and whose errors name it."""
    several = name.endswith("_backward") or name == "adamw"

    def called(*arguments):
        try:
            returned = function(*arguments)
        except BaseException as error:                # of a limit of time, too
            raise FunctionFailed(name) from error
        if isinstance(returned, tuple) and not several:
            returned = returned[0]                    # y, of a forward that returns more
        dtype = next(x.dtype for x in arguments
                     if isinstance(x, np.ndarray) and x.dtype.kind == "f")
        if isinstance(returned, (tuple, list)) and several:
            returned = [np.asarray(x, dtype) for x in returned]
            return returned[0] if len(returned) == 1 else returned
        return np.asarray(returned, dtype)
    return called
