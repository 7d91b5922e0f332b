"""A problem: a pair of functions to write, with random instances on which an answer is compared.

All sizes of an instance differ, so that no axis can be mistaken for another. A problem has levels,
the plain one first. Options belong to a level: an answer without that option is not tested there.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class FunctionProblem:
    """A function and its backward, as a problem for `numformer.check`.

    Parameters
    ----------
    function, gradient : callable
        The reference: `name` and `name_backward`.
    wanted : tuple of str
        The arguments whose gradients `gradient` returns, in its order.
    levels : dict of str to callable
        Makers of random arguments: each takes a random generator and returns the arguments by name,
        in the order of the function, and the options.
    note : str
        A hint for everybody whose answer is wrong.
    """

    function: object
    gradient: object
    wanted: tuple
    levels: dict
    note: str = ""


@dataclass(frozen=True)
class Instance:
    """One random instance of a problem.

    Every call makes its arrays again from the seed, so that an answer may write into them.
    """

    problem: FunctionProblem
    level: str
    seed: int

    def arguments(self):
        """(arguments by name, options)."""
        return self.problem.levels[self.level](np.random.default_rng(self.seed))

    def reference(self):
        """(y, saved, dy, gradients by name) of the reference."""
        arguments, options = self.arguments()
        y, saved = self.problem.function(*arguments.values(), **options)
        rng = np.random.default_rng(self.seed + 1)
        dy = rng.standard_normal(np.shape(y)) if np.shape(y) else 1.7
        gradients = self.problem.gradient(dy, saved)
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        return y, saved, dy, dict(zip((f"d{name}" for name in self.problem.wanted), gradients))


def sizes(rng, n):
    """`n` different sizes from 2 to 7, in random order."""
    return (int(size) for size in rng.permutation(np.arange(2, 8))[:n])


def one_array(**options):
    """A maker of one array x, with these options."""
    def make(rng):
        rows, columns = sizes(rng, 2)
        return {"x": 1.5 * rng.standard_normal((rows, columns))}, options
    return make


def elementwise(function, gradient, **options):
    """The problem of a function of single numbers, with a level for each option."""
    levels = {"plain": one_array()}
    levels.update({f"{name}={value}": one_array(**{name: value})
                   for name, value in options.items()})
    return FunctionProblem(function, gradient, ("x",), levels)
