"""A pair of functions at one small configuration, as the audit checks it."""

import inspect
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Pair:
    """A pair of functions, seen as a layer without parameters; it joins several outputs.

    Parameters
    ----------
    name : str
    shapes : list of tuple
        Shapes of the arrays that are differentiated.
    before, after : tuple
        Arguments before the arrays, such as ids, and after them.
    options : dict or callable
        Keyword arguments of `forward`; a callable is called once for each call.
    prepare : callable, optional
        Takes standard normal arrays and returns the inputs of the case.
    condition : float
        Condition number of the function: its factor on rounding errors. It multiplies the bound.
    function, gradient : callable
        `name` and `name_backward`; those of the specification if left out.

    Examples
    --------
    >>> from numformer.functional import relu, relu_backward
    >>> pair = Pair("relu", [(2,)], function=relu, gradient=relu_backward)
    >>> y, saved = pair.forward(np.array([-1.0, 2.0]))
    >>> pair.backward(np.array([5.0, 5.0]), saved)
    (array([0., 5.]),)
    """

    name: str
    shapes: list
    before: tuple = ()
    after: tuple = ()
    options: object = field(default_factory=dict)
    prepare: object = None
    condition: float = 1.0
    function: object = None
    gradient: object = None

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


def drawn_case(name, make, wanted):
    """The Pair of a random instance: `make` and `wanted` as in a Level and a Specification."""
    arguments, options = make(np.random.default_rng(1))
    names = [key for key in arguments if key in wanted]
    first = list(arguments).index(names[0])
    arrays, others = [arguments[key] for key in names], list(arguments.values())
    return Pair(name, [x.shape for x in arrays], tuple(others[:first]),
                tuple(others[first + len(names):]), options, prepare=lambda *_: arrays)


def floats(*shape):
    """An array of this shape, for inputs that must be refused."""
    return np.zeros(shape)


def seeded():
    """Options of a layer with dropout: the same random generator in every call."""
    return {"rng": np.random.default_rng(5)}
