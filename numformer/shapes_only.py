"""Models that have names and shapes, but no memory, and never more of them than a bound."""

from contextlib import contextmanager
from contextvars import ContextVar
from math import prod

MOST_ARRAYS = 2**17                                   # of a model; Switch-C has 123,170
MOST_NUMBERS = 2**60                                  # of a model: NumPy counts bytes in 63 bits
_left = ContextVar("arrays and numbers that may still be made", default=None)


class TooLarge(ValueError):
    """A model has more arrays or numbers than `only_shapes` allows."""


@contextmanager
def only_shapes(arrays=MOST_ARRAYS, numbers=MOST_NUMBERS):
    """Inside, parameters are made for their names and shapes alone, and only a bounded number.

    Sizes that come from a file or a flag may ask for a model that takes hours to build. Here it
    ends within a second.

    Raises
    ------
    TooLarge
        If there are more parameters than `arrays`, or more numbers in them than `numbers`.
    """
    token = _left.set([arrays, numbers])
    try:
        yield
    finally:
        _left.reset(token)


def counted(shape):
    """Take a parameter off what may still be made inside `only_shapes`; whether this is inside."""
    left = _left.get()
    if left is None:
        return False
    left[0] -= 1
    left[1] -= prod(shape)
    if min(left) < 0:
        raise TooLarge("a model of these sizes has too many arrays or numbers")
    return True
