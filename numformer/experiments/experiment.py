"""What an experiment is: a question of the lecture notes, measured, with claims and a picture."""

from collections.abc import Callable
from typing import NamedTuple


class Outcome(NamedTuple):
    """What an experiment found with one seed.

    Parameters
    ----------
    figures : dict of str to float
        The numbers that claims are about, and those they are compared with.
    picture : callable
        Without arguments; draws the figure and returns it, or its axes. It is called only where
        the picture is wanted, so drawing belongs here and computing does not.
    table : str
        Lines of text for the terminal; empty if the figures say it all.
    """

    figures: dict
    picture: Callable
    table: str = ""


class Experiment(NamedTuple):
    """A question, and how it is measured.

    Parameters
    ----------
    question : str
        One line, as a reader of the notes would ask it.
    measure : callable
        ``measure(seed, steps=None) -> Outcome``. Every random choice depends on ``seed`` alone.
        ``steps`` replaces the number of training steps of every model that it trains: 1 or 2 for a
        test. An experiment that trains nothing ignores it.
    claims : tuple of Claim
        What must hold for the medians over seeds; `numformer reproduce` verifies them.
    """

    question: str
    measure: Callable
    claims: tuple = ()
