"""A problem: a pair of functions to write, with random instances on which an answer is compared.

All sizes of an instance differ, so that no axis can be mistaken for another. A problem has levels,
the plain one first. Options belong to a level: an answer without that option is not tested there.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Level:
    """One kind of random instances.

    Parameters
    ----------
    make : callable
        Takes a random generator and returns the arguments by name, in the order of the function,
        and the options.
    hint : str
        For a student who passes the levels before and fails this one.
    needs : tuple of str
        Parameters that a function must have to be tested here, in addition to the options.
    optional : bool
        Whether the last argument is left out here: for functions that have a default of None there.
    dy : float
        The size of the gradient of the output. Other than 1: a level of backwards only.
    arrange : callable, optional
        Takes an array and a number, and returns the same numbers in another layout of memory.
    dtype : type
        Of the arrays of floats.
    instances : int
        How many are tested.
    close : float, optional
        The relative error of a right answer; by default that of the dtype.
    required : bool
        If not, a function that fails here is still right, with a remark.
    """

    make: object
    hint: str = ""
    needs: tuple = ()
    optional: bool = False
    dy: float = 1.0
    arrange: object = None
    dtype: type = np.float64
    instances: int = 3
    close: float | None = None
    required: bool = True

    def __call__(self, rng):
        return self.make(rng)


@dataclass(frozen=True)
class FunctionProblem:
    """A function and its backward, as a problem for `numformer.check`.

    Parameters
    ----------
    function, gradient : callable
        The reference: `name` and `name_backward`.
    wanted : tuple of str
        The arguments whose gradients `gradient` returns, in its order.
    levels : dict of str to callable or Level
        A callable is the `make` of a level without anything else.
    note : str
        A hint for everybody whose answer is wrong.
    smallest : float
        Of the size of numbers in the level of small numbers.
    """

    function: object
    gradient: object
    wanted: tuple
    levels: dict
    note: str = ""
    smallest: float = 1e-12


@dataclass(frozen=True)
class Instance:
    """One random instance of a problem.

    Every call makes its arrays again from the seed, so that an answer may write into them.
    """

    problem: FunctionProblem
    level: str
    seed: int

    def arguments(self, dtype=None):
        """(arguments by name, options); the floats are of the level's dtype unless given."""
        level = self.problem.levels[self.level]
        arguments, options = level(np.random.default_rng(self.seed))

        def given(x):
            if isinstance(x, tuple):
                return tuple(map(given, x))
            if not isinstance(x, np.ndarray):
                return x
            x = x.astype(level.dtype, copy=False) if x.dtype.kind == "f" else x
            if dtype and x.dtype.kind == "f":
                x = x.astype(dtype, copy=False)
            return level.arrange(x, self.seed) if level.arrange else x

        return ({name: given(x) for name, x in arguments.items()},
                {name: given(x) for name, x in options.items()})

    @np.errstate(all="ignore")                       # numbers of 1e150 are meant to overflow
    def reference(self):
        """(y, saved, dy, gradients by name) of the reference; what has no gradient is left out.

        `saved` and `dy` are of the level's dtype, y and the gradients are computed in float64. They
        are finite on every instance of every problem: a number that is NaN or infinite could not be
        compared.
        """
        level = self.problem.levels[self.level]
        arguments, options = self.arguments()
        y, saved = self.problem.function(*arguments.values(), **options)
        rng = np.random.default_rng(self.seed + 1)
        dy = level.dy * (rng.standard_normal(np.shape(y)) if np.shape(y) else 1.7)
        exact, exact_dy = saved, dy
        if np.shape(dy):
            dy = exact_dy = dy.astype(level.dtype, copy=False)
            dy = level.arrange(dy, self.seed + 1) if level.arrange else dy
        if level.dtype != np.float64:
            arguments, options = self.arguments(np.float64)
            y, exact = self.problem.function(*arguments.values(), **options)
            exact_dy = np.float64(dy) if np.shape(dy) else dy
        gradients = self.gradients(exact_dy, exact)
        for key, x in {"y": y, **gradients}.items():  # any NaN would be right, as NaN > bound never
            assert np.isfinite(x).all(), f"{self}: {key} of the reference is not finite."
        return y, saved, dy, gradients

    def expected(self, backward):
        """The right outputs by name: the gradients, or y alone."""
        y, _, _, gradients = self.reference()
        return gradients if backward else {"y": y}

    def __str__(self):
        return f"{self.problem.function.__name__}, {self.level}, seed {self.seed}"

    def gradients(self, dy, saved):
        """The gradients of the reference by name."""
        gradients = self.problem.gradient(dy, saved)
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        named = zip((f"d{name}" for name in self.problem.wanted), gradients)
        return {name: gradient for name, gradient in named if gradient is not None}


class SomeOfSizeOne(np.random.Generator):
    """A generator with which `sizes` makes some sizes 1."""


def sizes(rng, n):
    """`n` different sizes from 2 to 7, in random order."""
    drawn = [int(size) for size in rng.permutation(np.arange(2, 8))[:n]]
    if isinstance(rng, SomeOfSizeOne):
        ones = rng.permutation(n)[:rng.integers(1, n + 1)]
        drawn = [1 if i in ones else size for i, size in enumerate(drawn)]
    return drawn


def one_array(**options):
    """A maker of one array x, with these options."""
    def make(rng):
        rows, columns = sizes(rng, 2)
        return {"x": 1.5 * rng.standard_normal((rows, columns))}, options
    return make


def huge(rng):
    arguments, options = one_array()(rng)
    arguments["x"][0] *= 1e150
    return arguments, options


def elementwise(function, gradient, at_zero=None, **options):
    """The problem of a function of single numbers, with a level for each option."""
    levels = {"plain": one_array()}
    levels.update({f"{name}={value}": one_array(**{name: value})
                   for name, value in options.items()})
    levels["numbers of 1e150"] = Level(huge, "The square or the cube of these numbers overflows.",
                                       required=False)
    if at_zero:
        levels["zeros"] = at_zero
    return FunctionProblem(function, gradient, ("x",), levels)
