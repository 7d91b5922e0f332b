"""What lies between a published tensor and ours: linear maps, each with its inverse.

A row of a family's table names a parameter of ours, a published tensor, and the operations that
lead from theirs to ours. `read` goes that way and `write` back. Each tensor of theirs is linear in
ours, so a gradient goes back as the weights do; but for `Times` and `PlusOne`, which say so.
"""

import numpy as np


class Operation:
    """A map from a published tensor to ours.

    A subclass has ``read(theirs)``, which may be a view; ``write(ours, theirs)``, which stores into
    `theirs`; and ``shape(ours)``, the published shape for one of ours.
    """

    moves = True                                      # numbers change places, and nothing else

    def gradient(self, dours, dtheirs):
        """Store the gradient with respect to theirs, given that with respect to ours."""
        self.write(dours, dtheirs)


class Permute(Operation):
    """Axes in another order: axis i of ours is axis ``axes[i]`` of theirs.

    Examples
    --------
    >>> Permute(2, 3, 1, 0).read(np.zeros((768, 3, 16, 16))).shape     # the kernel of a convolution
    (16, 16, 3, 768)
    """

    def __init__(self, *axes):
        self.axes = axes

    def shape(self, ours):
        return tuple(ours[self.axes.index(axis)] for axis in range(len(self.axes)))

    def read(self, theirs):
        return theirs.transpose(self.axes)

    def write(self, ours, theirs):
        theirs[...] = ours.transpose(np.argsort(self.axes))


class Part(Operation):
    """A part of a larger tensor: q, k or v of a stack of the three, or rows after some unused ones.

    Parameters
    ----------
    axis : int
        Where parts are next to each other.
    start : int
        Where ours begins.
    total : int
        How long theirs is.

    Examples
    --------
    >>> Part(axis=1, start=3, total=9).read(np.arange(9)[None])
    array([[3, 4, 5, 6, 7, 8]])
    >>> Part(axis=1, start=3, total=9).shape((1, 3))
    (1, 9)
    """

    def __init__(self, axis, start, total, size=None):
        self.axis, self.start, self.total = axis, start, total
        self.stop = total if size is None else start + size

    def shape(self, ours):
        return (*ours[:self.axis], self.total, *ours[self.axis + 1:])

    def read(self, theirs):
        return theirs[(slice(None),) * self.axis + (slice(self.start, self.stop),)]

    def write(self, ours, theirs):
        self.read(theirs)[...] = ours


class Heads(Operation):
    """One of q, k and v where theirs has them head by head: rows (head, part, D).

    GPT-NeoX and BLOOM store them in this way.

    Examples
    --------
    >>> theirs = np.arange(12)[:, None]                               # 2 heads, 3 parts, D = 2
    >>> Heads(part=1, n_parts=3, n_heads=2).read(theirs)[:, 0]
    array([2, 3, 8, 9])
    """

    def __init__(self, part, n_parts, n_heads):
        self.part, self.n_parts, self.n_heads = part, n_parts, n_heads

    def shape(self, ours):
        return (ours[0] * self.n_parts, *ours[1:])

    def read(self, theirs):
        rows = self._split(theirs, self.n_parts)[:, self.part]        # (H, D, ...)
        return rows.reshape(-1, *theirs.shape[1:])

    def write(self, ours, theirs):
        self._split(theirs, self.n_parts)[:, self.part] = self._split(ours, 1)[:, 0]

    def _split(self, x, n_parts):
        return x.reshape(self.n_heads, n_parts, -1, *x.shape[1:])     # (H, parts, D, ...)


class Leading(Operation):
    """Without `n` first axes, all of length 1.

    Examples
    --------
    >>> Leading(2).read(np.zeros((1, 1, 5))).shape
    (5,)
    """

    def __init__(self, n):
        self.n = n

    def shape(self, ours):
        return (1,) * self.n + tuple(ours)

    def read(self, theirs):
        return theirs.reshape(theirs.shape[self.n:])

    def write(self, ours, theirs):
        theirs[...] = ours


class Flip(Operation):
    """The first axis backwards.

    Examples
    --------
    >>> Flip().read(np.arange(3))
    array([2, 1, 0])
    """

    def shape(self, ours):
        return ours

    def read(self, theirs):
        return theirs[::-1]

    def write(self, ours, theirs):
        theirs[...] = ours[::-1]


class Times(Operation):
    """Ours is a factor times theirs: the gradient is multiplied, where weights are divided.

    `write` chooses, of the neighbours of a quotient, one that `read` restores, if there is one.

    Examples
    --------
    >>> theirs, dtheirs = np.zeros(2), np.zeros(2)
    >>> Times(4.0).write(np.array([1.0, 2.0]), theirs)
    >>> Times(4.0).gradient(np.array([1.0, 2.0]), dtheirs)
    >>> theirs, dtheirs
    (array([0.25, 0.5 ]), array([4., 8.]))
    """

    moves = False

    def __init__(self, factor):
        self.factor = float(factor)

    def shape(self, ours):
        return ours

    def read(self, theirs):
        return theirs * self.factor

    def write(self, ours, theirs):
        theirs[...] = ours / self.factor
        for limit in (-np.inf, np.inf):
            wrong = self.read(theirs) != ours
            if not wrong.any():
                return
            near = np.nextafter(theirs[wrong], theirs.dtype.type(limit))
            theirs[wrong] = np.where(self.read(near) == ours[wrong], near, theirs[wrong])

    def gradient(self, dours, dtheirs):
        # ours = factor * theirs
        dtheirs[...] = dours * self.factor


class PlusOne(Operation):
    """Ours is theirs plus one: Gemma's norms multiply by 1 + w. The gradient is the same.

    Examples
    --------
    >>> theirs, dtheirs = np.zeros(2), np.zeros(2)
    >>> PlusOne().write(np.array([1.0, 2.0]), theirs)
    >>> PlusOne().gradient(np.array([1.0, 2.0]), dtheirs)
    >>> theirs, dtheirs
    (array([0., 1.]), array([1., 2.]))
    """

    moves = False

    def shape(self, ours):
        return ours

    def read(self, theirs):
        return theirs + 1

    def write(self, ours, theirs):
        theirs[...] = ours - 1

    def gradient(self, dours, dtheirs):
        # ours = theirs + 1
        dtheirs[...] = dours


TRANSPOSED = Permute(1, 0)              # a linear map of PyTorch has the shape (d_out, d_in)
CONVOLUTION = Permute(2, 3, 1, 0)       # its kernel of patches: (C, channels, height, width)
FLIPPED = Flip()                        # theirs has two classes in the other order
