"""The table of a family: which published tensor belongs to which parameter of ours."""

from typing import NamedTuple

import numpy as np

from numformer.weights.operations import TRANSPOSED


class Row(NamedTuple):
    """A line of a table.

    Parameters
    ----------
    ours : str
        The name of a parameter; two rows with the same one: it is the sum of both.
    theirs : str
        The name of a tensor; rows may share one, if each has its own part of it.
    operations : tuple of Operation
        From theirs to ours, in their order.
    added : bool
        For the second row of a sum: it is written as zero, and its gradient is that of the sum.
    index : int, optional
        Ours is only this entry of the parameter, such as one of its rows.
    """

    ours: str
    theirs: str
    operations: tuple = ()
    added: bool = False
    index: int | None = None

    def part(self, parameter):
        """Ours, of an array of the whole parameter: a view."""
        return parameter if self.index is None else parameter[self.index]

    def shape(self, ours):
        """The published shape, for the shape of our parameter."""
        ours = ours if self.index is None else ours[1:]
        for operation in reversed(self.operations):
            ours = operation.shape(ours)
        return tuple(ours)

    def read(self, theirs):
        """What our parameter holds, an array or a view; theirs is an array."""
        for operation in self.operations:
            theirs = operation.read(theirs)
        return theirs

    def write(self, ours, theirs):
        """Store our parameter into theirs, an array of zeros at first."""
        ours = self.part(ours)
        _store(self.operations, np.zeros_like(ours) if self.added else ours, theirs, "write")

    def gradient(self, dours, dtheirs):
        """Store the gradient of our parameter into that of theirs."""
        _store(self.operations, self.part(dours), dtheirs, "gradient")


def _store(operations, ours, theirs, how):
    """Go back through the operations, the last one first."""
    if not operations:
        theirs[...] = ours
        return
    first, *rest = operations
    inner = np.zeros_like(first.read(theirs)) if rest else ours       # what `first` reads
    if rest:
        inner[...] = first.read(theirs)
        _store(rest, ours, inner, how)
    getattr(first, how)(inner, theirs)


def linear(ours, theirs, bias=True):
    """The rows of a Linear."""
    yield Row(f"{ours}.weight", f"{theirs}.weight", (TRANSPOSED,))
    if bias:
        yield Row(f"{ours}.bias", f"{theirs}.bias")


def norm(ours, theirs, bias=True):
    """The rows of a norm; an RMSNorm has no bias."""
    yield Row(f"{ours}.weight", f"{theirs}.weight")
    if bias:
        yield Row(f"{ours}.bias", f"{theirs}.bias")
