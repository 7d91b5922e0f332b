"""Pictures of a run: a page registers what it draws, and `numformer plot KIND RUN` finds it.

Each is a function of a `numformer.commands.shared.selection.Run`, which has the model, its task, an
input with its attention, and the options that a user has chosen.
"""

from collections.abc import Callable
from typing import NamedTuple


class Picture(NamedTuple):
    """A kind of picture.

    Parameters
    ----------
    draw : callable
        Of a `Run`; returns Axes or a Figure. ValueError if the run has nothing to draw.
    takes : tuple of str
        The options of `numformer plot` that it has use for.
    """

    draw: Callable
    takes: tuple = ()

    @property
    def help(self):
        """One line; empty with `python -OO`."""
        return (self.draw.__doc__ or "").partition("\n")[0].rstrip(".")


PICTURES = {}                                         # by kind


def picture_of_run(kind, *takes):
    """Register a function of a run, whose docstring is the help, as a kind of picture."""
    def register(draw):
        PICTURES[kind] = Picture(draw, takes)
        return draw

    return register
