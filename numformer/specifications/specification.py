"""What is known about one function pair, in one object: everything that checks it reads this."""

from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from numformer import functional
from numformer.specifications.edges import with_edges
from numformer.specifications.levels import Level
from numformer.specifications.pair import drawn_case

SPECIFICATIONS = {}                                      # by the name of the function


@dataclass(frozen=True)
class Specification:
    """A function and its backward, and all that is known about them.

    Parameters
    ----------
    function, gradient : callable
        The reference: `name` and `name_backward`.
    wanted : tuple of str
        The arguments whose gradients `gradient` returns, in its order.
    levels : dict of str to callable or Level
        Kinds of random instances, the plain one first. A callable is the `make` of a level without
        anything else. None for a function with several outputs: `check` compares one.
    cases : list of Pair
        Small configurations at which the audit compares the gradient with the complex step, and
        compiled versions with the reference. By default, a random instance of every level that is
        a mere callable.
    mistakes : list of (str, callable)
        Likely mistakes in the backward: the cause in words, and a function that makes it. It takes
        `(dy, *arguments, **options)` and returns gradients.
    forward_mistakes : list of (str, callable)
        The same in the function itself: `(*arguments, **options)` to y.
    sized_mistakes : (list of (str, list of callable), the same)
        Mistakes with a size that whoever makes them has chosen, such as that of tiles: one
        function for each of some sizes. Those in the function itself, and those in the backward.
    note : str
        A hint for everybody whose answer is wrong.
    smallest : float
        Of the size of numbers in the level of small numbers.
    hints, backward_hints : tuple of str
        Three for whoever writes the function, three for the backward, each of more help than the
        one before: the idea, the step or the shape, nearly the line.
    names : dict of str to str
        What variables of the references' code, or other parts of it, are in the formulas, as code:
        "r" for "rstd". By these a cause is told that is a change of one line. Other variables
        stand for how they are computed.
    last_axes : dict of str to int, optional
        The arguments whose shape begins with "...", the same axes in all, and how many axes follow:
        ``{"x": 1}`` for x (..., C). None where the number of axes is fixed.
    """

    function: object
    gradient: object
    wanted: tuple
    levels: dict
    cases: list
    mistakes: list
    note: str = ""
    smallest: float = 1e-12
    last_axes: dict | None = None
    hints: tuple = ()
    backward_hints: tuple = ()
    forward_mistakes: tuple = ()
    sized_mistakes: tuple = ((), ())
    names: dict = field(default_factory=dict)


def specify(function, wanted, levels=(), cases=(), mistakes=(), **more):
    """Add the Specification of a function of `numformer.functional`, with the edges of its levels.

    The backward is found by its name; `function` and `gradient` of the cases may be left out.
    """
    name = function.__name__
    gradient = getattr(functional, f"{name}_backward")
    cases = cases or [drawn_case(name if number == 0 else f"{name}, {level}", make, wanted)
                      for number, (level, make) in enumerate(dict(levels).items())
                      if number == 0 or not isinstance(make, Level)]
    cases = [case if case.gradient else replace(case, function=case.function or function,
                                                gradient=gradient) for case in cases]
    SPECIFICATIONS[name] = Specification(function, gradient, wanted, with_edges(
        dict(levels), wanted, more.get("smallest", Specification.smallest), more.get("last_axes")),
        cases, list(mistakes), **more)


def changed(function, **changes):
    """A mistake: the right gradients of a function, of which some are changed.

    Parameters
    ----------
    function : callable
        Of `numformer.functional`.
    **changes : callable
        By the name of the gradient; each takes it, dy and the arguments.

    Examples
    --------
    >>> transposed = changed(functional.linear, dweight=lambda dweight, *_: dweight.T)
    >>> dx, dweight, dbias = transposed(np.ones((1, 3)), np.ones((1, 2)), np.ones((2, 3)))
    >>> dweight.shape
    (3, 2)
    """
    def gradients(dy, *arguments, **options):
        specification = SPECIFICATIONS[function.__name__]
        right = specification.gradient(dy, function(*arguments, **options)[1])
        return tuple(
            gradient if gradient is None or change is None else change(gradient, dy, *arguments)
            for gradient, change in zip(right, (changes.get(f"d{name}")
                                                for name in specification.wanted)))
    return gradients


@dataclass(frozen=True, eq=False)
class Instance:
    """One random instance of the problem to write a function.

    What is given to an answer is a copy in every call, as it may write into it. `numbers`, `y` and
    `exact` are made once, to be read.
    """

    problem: Specification
    level: str
    seed: int

    def arguments(self, dtype=None):
        """(arguments by name, options); the floats are of the level's dtype unless given."""
        level = self.problem.levels[self.level]
        arguments, options = self._drawn

        def given(x):
            if isinstance(x, tuple):
                return tuple(map(given, x))
            if not isinstance(x, np.ndarray):
                return deepcopy(x)                    # a pattern, a generator in its first state
            x = x.astype(level.dtype if x.dtype.kind == "f" else x.dtype)
            if dtype and x.dtype.kind == "f":
                x = x.astype(dtype, copy=False)
            return level.arrange(x, self.seed) if level.arrange else x

        return ({name: given(x) for name, x in arguments.items()},
                {name: given(x) for name, x in options.items()})

    @cached_property
    def _drawn(self):
        """(arguments by name, options), as the level makes them."""
        return self.problem.levels[self.level](np.random.default_rng(self.seed))

    @cached_property
    def numbers(self):
        """The result of `arguments`, to be read."""
        return self.arguments()

    @property
    def y(self):
        """y of the reference, computed in float64."""
        return self._exact_forward[0]

    @cached_property
    def exact(self):
        """(y, dy, gradients by name) of the reference; what has no gradient is left out.

        dy is of the level's dtype, y and the gradients are computed in float64. They are finite on
        every instance of every problem: a number that is NaN or infinite could not be compared.
        """
        level, (y, saved) = self.problem.levels[self.level], self._exact_forward
        rng = np.random.default_rng(self.seed + 1)
        dy = level.dy * (rng.standard_normal(np.shape(y)) if np.shape(y) else 1.7)
        dy = dy.astype(level.dtype, copy=False) if np.shape(dy) else dy
        with np.errstate(all="ignore"):
            gradients = self.gradients(dy.astype(np.float64) if np.shape(dy) else dy, saved)
        return y, dy, {key: self._finite(key, dx) for key, dx in gradients.items()}

    @cached_property
    def _exact_forward(self):
        y, saved = self._forward(*(
            self.numbers if self.problem.levels[self.level].dtype == np.float64
            else self.arguments(np.float64)))
        return self._finite("y", y), saved

    def _finite(self, key, x):
        """An output of the reference, to be read; any NaN would be right, as NaN > bound never."""
        assert np.isfinite(x).all(), f"{self}: {key} of the reference is not finite."
        if isinstance(x, np.ndarray):
            x.flags.writeable = False
        return x

    @np.errstate(all="ignore")                       # numbers of 1e150 are meant to overflow
    def _forward(self, arguments, options):
        return self.problem.function(*arguments.values(), **options)

    def saved(self):
        """What the reference saves for its backward, in the level's dtype."""
        return self._forward(*self.arguments())[1]

    def dy(self):
        """The gradient of y, in the level's dtype and layout."""
        dy, arrange = self.exact[1], self.problem.levels[self.level].arrange
        if not np.shape(dy):
            return dy
        return arrange(dy.copy(), self.seed + 1) if arrange else dy.copy()

    def expected(self, backward):
        """The right outputs by name, to be read: the gradients, or y alone."""
        return self.exact[2] if backward else {"y": self.y}

    def __str__(self):
        return f"{self.problem.function.__name__}, {self.level}, seed {self.seed}"

    def gradients(self, dy, saved):
        """The gradients of the reference by name."""
        gradients = self.problem.gradient(dy, saved)
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        named = zip((f"d{name}" for name in self.problem.wanted), gradients)
        return {name: gradient for name, gradient in named if gradient is not None}
