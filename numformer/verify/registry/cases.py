"""Entries of the registry: a layer or model and how to build it, or a pair of functions."""

import inspect
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Case:
    """A layer at one small configuration, and arrays for it.

    Parameters
    ----------
    name : str
    build : callable
        Takes (rng, dtype) and returns the layer.
    shapes : list of tuple
        Shapes of the arrays that are differentiated, in the order of `forward`'s arguments.
    options : callable
        Returns the keyword arguments of `forward`; called once for each call.
    ids : tuple of ndarray of int, optional
        Inputs without a gradient; they come first.
    wrong : list of (inputs, exception, words)
        Inputs that `forward` must refuse, and words that the message must contain.
    condition : float
        Condition number of the function: its factor on rounding errors. It multiplies the bound.
    batch : callable, optional
        For a model: makes the batch of its loss from the ids. The default is `next_tokens`.
    """

    name: str
    build: object
    shapes: list
    options: object = dict
    ids: tuple = ()
    wrong: list = field(default_factory=list)
    condition: float = 1.0
    batch: object = None

    def layer(self, dtype=np.float64, seed=0):
        """The layer, with every parameter moved away from the special values 0 and 1."""
        rng = np.random.default_rng(seed)
        layer = self.build(rng, dtype)
        for _, parameter in layer.named_parameters():
            parameter.data += 0.3 * rng.standard_normal(parameter.data.shape).astype(dtype)
        return layer

    def inputs(self, dtype=np.float64, seed=1):
        rng = np.random.default_rng(seed)
        return [*self.ids, *(rng.standard_normal(shape).astype(dtype) for shape in self.shapes)]


@dataclass(frozen=True)
class Pair:
    """A pair of functions, seen as a layer without parameters; it joins several outputs.

    Parameters
    ----------
    name : str
    function, gradient : callable
        `name` and `name_backward`.
    shapes : list of tuple
        Shapes of the arrays that are differentiated.
    before, after : tuple
        Arguments before the arrays, such as ids, and after them.
    options : dict or callable
        Keyword arguments of `forward`; a callable is called once for each call.
    prepare : callable, optional
        Takes standard normal arrays and returns the inputs of the case.
    condition : float
        As in `Case`.

    Examples
    --------
    >>> from numformer.functional import relu, relu_backward
    >>> pair = Pair("relu", relu, relu_backward, [(2,)])
    >>> y, saved = pair.forward(np.array([-1.0, 2.0]))
    >>> pair.backward(np.array([5.0, 5.0]), saved)
    (array([0., 5.]),)
    """

    name: str
    function: object
    gradient: object
    shapes: list
    before: tuple = ()
    after: tuple = ()
    options: object = field(default_factory=dict)
    prepare: object = None
    condition: float = 1.0

    def layer(self, dtype=np.float64, seed=0):
        return self

    def inputs(self, dtype=np.float64, seed=1):
        rng = np.random.default_rng(seed)
        arrays = [rng.standard_normal(shape) for shape in self.shapes]
        return [x.astype(dtype) for x in (self.prepare(*arrays) if self.prepare else arrays)]

    def forward(self, *arrays, **options):
        return self.run(self.function, *arrays, **options)

    def backward(self, dy, saved):
        return self.run_backward(self.gradient, dy, saved)

    def run(self, function, *arrays, **options):
        """`forward` of this function in any version; several outputs are put side by side."""
        y, saved = function(*self.before, *arrays, *self.after, **options)
        if not isinstance(y, tuple):
            return y, (None, saved)
        ends = np.cumsum([part.shape[-1] for part in y])
        return np.concatenate(y, axis=-1), (ends[:-1], saved)

    def run_backward(self, gradient, dy, saved):
        """`backward` of the same version."""
        ends, saved = saved
        if ends is not None:
            dy = tuple(np.split(dy, ends, axis=-1))
        elif not np.ndim(dy):
            dy = float(dy)
        gradients = gradient(dy, saved)
        return gradients if isinstance(gradients, tuple) else (gradients,)

    def named_parameters(self):
        return ()

    @property
    def input_names(self):
        names = list(inspect.signature(self.function).parameters)[len(self.before):]
        more = len(self.shapes) - len(names)                         # of *arguments
        return [*names, *(f"{names[-1]}_{k}" for k in range(2, 2 + more))]


class LossOf:
    """A model's loss as a function of its ids, seen as a layer.

    Parameters
    ----------
    model : Layer
        With `loss` and `loss_backward`.
    batch : callable, optional
        As in `Case`.
    """

    def __init__(self, model, batch=None):
        self.model, self.batch = model, batch or next_tokens

    def forward(self, *ids, **options):
        return self.model.loss(self.batch(*ids), **options)

    def backward(self, dloss, saved):
        self.model.loss_backward(saved, float(dloss))

    def named_parameters(self):
        return self.model.named_parameters()


def next_tokens(*ids):
    """Inputs and targets of next-token prediction from the last array; other inputs come first."""
    *sources, tokens = ids
    return (*sources, tokens[:, :-1], tokens[:, 1:])


def floats(*shape):
    """An array of this shape, for inputs that must be refused."""
    return np.zeros(shape)


def seeded():
    """Options of a layer with dropout: the same random generator in every call."""
    return {"rng": np.random.default_rng(5)}
