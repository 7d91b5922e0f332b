"""The computation of one layer, read from its code and from one run: steps, variables, `saved`."""

from typing import NamedTuple

import numpy as np

from numformer import backend
from numformer.analysis.structure.observed_call import observed, packs, unpacks
from numformer.analysis.structure.statements import Statements
from numformer.parameter import Layer


class Variable(NamedTuple):
    """A variable after one statement.

    Parameters
    ----------
    name : str
        As the code has it; with primes where it replaces one of the same name.
    content : str
        Its shape, or what else it is.
    role : "input", "value", "saved", "output" or "gradient"
        "saved" are those that the forward packs for the backward, "gradient" those of parameters.
    """

    name: str
    content: str
    role: str


class Step(NamedTuple):
    """A statement that ran: the text of its right side, what it reads, and what it makes.

    Parameters
    ----------
    text : str
    reads : tuple of int
        Indices of variables.
    makes : tuple of int
    """

    text: str
    reads: tuple
    makes: tuple


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
        The tuple that is packed for the backward, as the code has it; empty without one.
    """

    function: str
    page: str
    variables: tuple
    steps: tuple
    saved: str


def computation(layer, *inputs, backward=False, **options):
    """Run a layer once on the reference, and read what it computes from its code.

    The statements of `forward` that ran become steps; so do those of `backward`. Where a method
    hands all work to a function, it is the function's statements.

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
    >>> from numformer.layers import LayerNorm
    >>> forward, _ = computation(LayerNorm(3), np.ones((2, 3), np.float32))
    >>> forward.function, forward.saved
    ('layer_norm', '(x, weight, mean, rstd)')
    >>> [variable.name for variable in forward.variables if variable.role == "saved"]
    ['x', 'weight', 'mean', 'rstd']
    """
    if not isinstance(layer, Layer) or not hasattr(type(layer), "backward"):
        raise TypeError(f"computation: {type(layer).__name__} is no layer with a forward and a "
                        "backward; give a layer of numformer.layers.")
    with backend.using("numpy"), backend.threads(1):     # whose functions can be read
        forward, (y, saved) = _computed(layer.forward, packs, inputs, options)
        if not backward:
            return forward, None
        dy = tuple(map(np.ones_like, y)) if isinstance(y, tuple) else np.ones_like(y)
        reverse, _ = _computed(layer.backward, unpacks, (dy, saved), {})
    return forward, reverse


def _computed(method, belongs, inputs, options):
    call, result = observed(method, belongs, inputs, options)
    read = Statements(call)
    variables = tuple(Variable(*each) for each in read.variables)
    steps = tuple(Step(text, tuple(reads), tuple(makes)) for text, reads, makes in read.steps)
    return Computation(call.code.co_name, call.page, variables, steps, read.saved), result
