"""The mathematics of one layer, read from its code and from one run: steps, variables, `saved`.

What belongs to the engine is folded away: checks, the choice of a version, faster ways to the same
numbers, and what only passes arrays on. `statements` says how.
"""

import inspect
import re
from typing import NamedTuple

import numpy as np

from numformer import backend
from numformer.analysis.structure.formulas import MARK
from numformer.analysis.structure.observed_call import (
    arrays_in, observed, packs, unpacks, working)
from numformer.analysis.structure.statements import Mathematics
from numformer.parameter import Layer


class Variable(NamedTuple):
    """A variable after one statement.

    Parameters
    ----------
    name : str
        As the code has it; with primes where it replaces one of the same name.
    content : str
        Its shape.
    role : "input", "value", "saved", "output" or "gradient"
        "saved" are those that the forward keeps for the backward, "gradient" those of parameters.
    """

    name: str
    content: str
    role: str


class Step(NamedTuple):
    """A step: its formula, what it reads, and what it makes.

    Parameters
    ----------
    name : str
        Of a sublayer, or of a part of attention: "scores", "softmax", "weighted mean"; or empty.
    text : str
        The formula.
    reads : tuple of int
        Indices of variables.
    makes : tuple of int
    loop : str
        What repeats it, such as "for each t, state ← after": the next step reads `after` in place
        of `state`. Empty outside of loops.
    """

    name: str
    text: str
    reads: tuple
    makes: tuple
    loop: str = ""


class Computation(NamedTuple):
    """What a function computes.

    Parameters
    ----------
    function : str
        Its name: a method of the layer, or the function that this one calls to do the work.
    page : str
        The file that defines it, below ``numformer/``.
    variables : tuple of Variable
    steps : tuple of Step
        In the order of the code.
    saved : str
        The names of what is kept for the backward; empty without any.
    """

    function: str
    page: str
    variables: tuple
    steps: tuple
    saved: str


def computation(layer, *inputs, backward=False, **options):
    """Run a layer once on the reference, and read what it computes from its code.

    The statements of `forward` that compute arrays become steps; so do those of `backward`. Where
    a method hands the work to functions, they are the functions' statements.

    Parameters
    ----------
    layer : Layer
    *inputs
        Of ``layer.forward``; small ones will do.
    backward : bool
        Whether to run the backward too, on a gradient of ones.
    **options
        Of ``layer.forward``.

    Returns
    -------
    forward : Computation
    backward : Computation or None

    Raises
    ------
    TypeError
        If it is no layer with a forward and a backward.

    Examples
    --------
    >>> from numformer.layers import SelfAttention
    >>> layer = SelfAttention(4, 3, np.random.default_rng(0))
    >>> forward, _ = computation(layer, np.ones((1, 2, 4), np.float32))
    >>> for step in forward.steps:
    ...     print(step.text)
    x W_query
    x W_key
    x W_value
    q kᵀ / √D
    softmax(scores)
    p v
    >>> forward.saved
    '(x, q, k, v, p)'
    """
    if not isinstance(layer, Layer) or not hasattr(type(layer), "backward"):
        raise TypeError(f"computation: {type(layer).__name__} is no layer with a forward and a "
                        "backward; give a layer of numformer.layers.")
    with backend.using("numpy"), backend.threads(1):     # whose functions can be read
        call, (y, saved) = observed(layer.forward, inputs, options)
        call, reverse = working(call, packs), layer.backward
        if call.plain:
            reverse = getattr(inspect.getmodule(call.plain), f"{call.plain.__name__}_backward")
            call, (y, saved) = call.in_plain()
        found = Mathematics(call, layer)
        kept = _marked(found, arrays_in(y), arrays_in(saved))
        _name_results(found, "y")
        forward = _computed(call, found)
        if not backward:
            return forward, None
        dy = tuple(map(np.ones_like, y)) if isinstance(y, tuple) else np.ones_like(y)
        reverse, _ = observed(reverse, (dy, saved), {})
    reverse = working(reverse, unpacks)
    known = [(array, found.names.get(index)) for array, index in kept]
    found = Mathematics(reverse, layer, known, found.numbers)
    arguments = [name for name, value in call.arguments.items() if isinstance(value, np.ndarray)]
    results = list(arrays_in(reverse.result))
    for name, index in zip(arguments, map(found.index_of, results)):
        if index is not None and found.variables[index][0].startswith("result"):
            found.variables[index][0] = f"d{name}"
    _marked(found, results, ())
    _name_results(found, "dx")
    return forward, _computed(reverse, found, ("output", "gradient"))


def _marked(found, results, saved):
    """Mark what is returned and what is kept; (array, variable or None) of all that is kept."""
    pairs = [(array, found.index_with(array)) for array in saved]
    for index in {index for _, index in pairs if index is not None}:
        found.variables[index][2] = "saved"
    for array in results:
        index = found.index_of(array)
        if index is not None and index in found.constants:
            found.steps.append(["", found.constants.pop(index), (index,)])
            found.variables[index][2] = "value"
        found.results.add(index)
        if index is not None and found.variables[index][2] == "value":
            found.variables[index][2] = "output"
    return pairs


def _name_results(found, name):
    """Name what the code gives no name."""
    for variable in found.variables:
        if re.fullmatch(r"result\d*", variable[0]):
            variable[0] = name


def _computed(call, found, wanted=("output", "saved", "gradient")):
    """The steps that lead to what is returned, kept or a gradient, with their names."""
    needed = {index for index, variable in enumerate(found.variables)
              if variable[2] in wanted} | found.results - {None}
    if not needed:                                    # nothing is returned, as of ids
        needed = {index for _, _, makes in found.steps for index in makes}
    steps, before = [], None
    while before != needed:                           # a loop reads what its last step made
        before, steps = set(needed), []
        for name, formula, makes in reversed(found.steps):
            if needed & set(makes):
                needed |= {*formula.variables, *makes, *_loop_reads(found, makes)}
                steps.insert(0, (name, formula, makes))
                if makes[0] in found.loops:
                    needed |= {later for first, later in found.loops[makes[0]].carried.items()
                               if first in needed}
    made = {index for _, _, makes in steps for index in makes}
    kept = [index for index, variable in enumerate(found.variables)
            if index in made or index in needed and variable[2] in ("input", "saved")]
    place = {index: k for k, index in enumerate(kept)}
    names = _without_repetition([found.variables[index][0] for index in kept])
    found.names.update(zip(kept, names))
    variables = tuple(Variable(names[k], *found.variables[index][1:])
                      for k, index in enumerate(kept))

    def in_names(text):
        return MARK.sub(lambda each: names[place[int(each[1])]], text)

    def loop_in_names(makes):
        loop = found.loops.get(makes[0])
        carried = [f"{names[place[one]]} ← {names[place[other]]}" for one, other in (
            loop.carried.items() if loop else ()) if one in place and other in place]
        return ", ".join([in_names(loop.label), *carried]) if loop else ""

    written = tuple(
        Step(name, in_names(formula.text),
             tuple(place[index] for index in dict.fromkeys(
                 [*formula.variables, *_loop_reads(found, makes)])),
             tuple(place[index] for index in makes), loop_in_names(makes))
        for name, (_, formula, makes) in zip(_named(steps, found.variables), steps))
    saved = [variable.name for variable in variables if variable.role == "saved"]
    return Computation(call.code.co_name, call.page, variables, written,
                       f"({', '.join(saved)})" if saved else "")


def _loop_reads(found, makes):
    """The variables that the label of a loop names, such as what is split among experts."""
    return found.loops[makes[0]].reads if makes[0] in found.loops else ()


def _without_repetition(names):
    """Names with primes, where an earlier variable has the same."""
    return [name + "′" * names[:k].count(name) for k, name in enumerate(names)]


def _named(steps, variables):
    """The names of the steps; what surrounds a softmax over products is attention."""
    names = [name for name, _, _ in steps]
    maker = {index: k for k, (_, _, makes) in enumerate(steps) for index in makes}
    for k, (_, formula, makes) in enumerate(steps):
        if not formula.text.startswith("softmax("):
            continue
        names[k] = "softmax"
        before, near = {maker[index] for index in formula.variables if index in maker}, []
        while before:                                 # what the scores are made of, nearest first
            near += sorted(before - set(near), reverse=True)
            before = {maker[index] for each in before for index in steps[each][1].variables
                      if index in maker} - set(near)
        compares = [each for each in near if steps[each][1].multiplies
                    or "scores(" in steps[each][1].text]
        compares += [each for each in near if variables[steps[each][2][0]][0] == "scores"]
        scores = compares[0] if compares else None
        weights = set(makes)
        for later in range(k + 1, len(steps)):
            _, reads, results = steps[later]
            if weights & set(reads.variables):
                if reads.multiplies or "sum(" in reads.text:
                    if scores is not None:
                        names[scores], names[later] = "scores", "weighted mean"
                    break
                weights |= set(results)               # dropout, for example
    return names
