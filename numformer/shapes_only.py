"""Models that have names and shapes, but no memory, and never more of them than a bound."""

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import prod
from types import SimpleNamespace

import numpy as np

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


@dataclass(frozen=True)
class ShapeAlone:
    """What is known of an array without numbers, for one that is too large for NumPy.

    NumPy counts the bytes of an array in as many bits as an address has: in a browser, where these
    are 32, an array ends at 2 GiB, also if it takes no memory.

    Parameters
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    """

    shape: tuple
    dtype: np.dtype

    flags = SimpleNamespace(writeable=False)          # as of an array that takes no memory

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return prod(self.shape)

    @property
    def nbytes(self):
        return self.size * self.dtype.itemsize


def without_memory(value, shape, dtype):
    """An array with the same number everywhere that takes no memory: every stride is 0.

    Examples
    --------
    >>> without_memory(0, (10**6, 10**6), np.dtype("float32")).strides
    (0, 0)
    >>> without_memory(0, (2**62, 8), np.dtype("float32")).nbytes == 2**67
    True
    """
    try:
        return np.broadcast_to(np.full((), value, dtype), shape)
    except ValueError:                                # too large for NumPy
        return ShapeAlone(tuple(shape), dtype)


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
