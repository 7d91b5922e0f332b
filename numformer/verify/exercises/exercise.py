"""What a student may be asked for: a pair of functions, on random problems whose sizes all differ, so that no two axes pass for one.

An exercise has levels, the plain one first. Options belong to a level; who has not got so far is not asked for them.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Exercise:
    """A pair of functions, which arguments have a gradient, and makers of problems.

    A maker takes a random generator and returns the arguments by name, in the order of the function, and the options. The
    note is told to whoever is wrong.
    """

    function: object
    gradient: object
    wanted: tuple
    levels: dict
    note: str = ""


@dataclass(frozen=True)
class Problem:
    """One random problem, made anew from its seed whenever it is asked for: what a student writes into is nobody else's."""

    exercise: Exercise
    level: str
    seed: int

    def arguments(self):
        """(arguments by name, options)."""
        return self.exercise.levels[self.level](np.random.default_rng(self.seed))

    def truth(self):
        """(y, saved, dy, gradients by name)."""
        arguments, options = self.arguments()
        y, saved = self.exercise.function(*arguments.values(), **options)
        dy = np.random.default_rng(self.seed + 1).standard_normal(np.shape(y)) if np.shape(y) else 1.7
        gradients = self.exercise.gradient(dy, saved)
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        return y, saved, dy, dict(zip((f"d{name}" for name in self.exercise.wanted), gradients))


def sizes(rng, n):
    """So many different sizes, 2 to 7 and in any order."""
    return (int(size) for size in rng.permutation(np.arange(2, 8))[:n])


def pointwise(**options):
    def make(rng):
        rows, columns = sizes(rng, 2)
        return {"x": 1.5 * rng.standard_normal((rows, columns))}, options
    return make


def one_number(function, gradient, **options):
    levels = {"plain": pointwise()}
    levels.update({f"{name}={value}": pointwise(**{name: value}) for name, value in options.items()})
    return Exercise(function, gradient, ("x",), levels)
