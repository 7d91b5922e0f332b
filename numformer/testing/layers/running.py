"""One forward and backward of a layer of any library: what goes in, and what comes out."""

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Call:
    """One forward of a sublayer, and the gradient of its output.

    Parameters
    ----------
    name : str
        Of the sublayer in its module, such as "self_attn.q_proj".
    inputs : list of ndarray
    output : ndarray
    gradient : ndarray or None
        Of the output; None where none was seen.
    """

    name: str
    inputs: list
    output: np.ndarray
    gradient: np.ndarray | None = None


@dataclass
class Run:
    """What a layer computed from its inputs, its weights and a gradient of y.

    Parameters
    ----------
    y : ndarray
    inputs : list
        The gradient of each input; None for one of whole numbers, or one without a gradient.
    parameters : dict of str to ndarray or None
        The gradient of each parameter.
    calls : list of Call
        Of the sublayers, in the order in which their forwards ended. Empty where none was seen.
    """

    y: np.ndarray
    inputs: list = field(default_factory=list)
    parameters: dict = field(default_factory=dict)
    calls: list = field(default_factory=list)


def is_float(x):
    """Whether this is an array of floats; whole numbers, such as ids, have no gradient."""
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def first_output(y):
    """The first of several outputs, as the y of an LSTM that also returns its state."""
    while isinstance(y, (tuple, list)) and y:
        y = y[0]
    return y


def farthest(exact, runs):
    """Of several runs with rounding errors, each array as in the one where it is farthest off.

    Parameters
    ----------
    exact : Run
    runs : list of Run
        Of the same layer: their calls are in the same order.

    Returns
    -------
    Run
    """
    if len(runs) == 1:
        return runs[0]

    def most(right, arrays):
        if right is None or any(x is None or np.shape(x) != np.shape(right) for x in arrays):
            return arrays[0]
        return max(arrays, key=lambda x: np.abs(x - right).max(initial=0))
    calls = [Call(first.name, [most(x, xs) for x, *xs in zip(
        right.inputs, *(call.inputs for call in each))], most(
            right.output, [call.output for call in each]), most(
                right.gradient, [call.gradient for call in each]))
             for right, first, *rest in zip(exact.calls, *(run.calls for run in runs))
             for each in [[first, *rest]]]
    return Run(most(exact.y, [run.y for run in runs]),
               [most(x, xs) for x, *xs in zip(exact.inputs, *(run.inputs for run in runs))],
               {name: most(x, [run.parameters[name] for run in runs])
                for name, x in exact.parameters.items()}, calls)


def gradient_of(y, dy):
    """The gradient that `dy`, a function of a shape, gives an output.

    Raises
    ------
    ValueError
        If there is no output.
    """
    if y is None or np.ndim(y) == 0 and not isinstance(y, (float, np.number, np.ndarray)):
        raise ValueError(f"assert_layer_matches: the module returned {type(y).__name__}; give "
                         "call=lambda module, x: ... that returns an array.")
    return dy(np.shape(y))
