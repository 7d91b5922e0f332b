"""The KV cache: keys and values of the positions so far, in arrays with space for more."""

import numpy as np

LEAST = 64                                                    # positions that a new buffer has


class KeyValueCache:
    """Keys and values of the positions so far, (B, G, S, D) and (B, G, S, D_V).

    It is a value: `append` returns another cache, and the old one stays valid. Both may share one
    buffer. Appending to the longest cache of a buffer writes behind its last position; appending to
    a shorter one, whose next position is taken, copies it into a buffer of its own. A full buffer
    is copied into one of twice its size, so a position costs O(1) on average.

    Parameters
    ----------
    k : ndarray, shape (B, G, S, D)
    v : ndarray, shape (B, G, S, D_V)
        The first positions.

    Examples
    --------
    >>> one = KeyValueCache(np.ones((1, 1, 1, 2)), np.ones((1, 1, 1, 2)))
    >>> two = one.append(np.zeros((1, 1, 1, 2)), np.zeros((1, 1, 1, 2)))
    >>> len(one), len(two), two.k[0, 0].tolist()
    (1, 2, [[1.0, 1.0], [0.0, 0.0]])
    """

    def __init__(self, k, v):
        self._buffer, self._length = _Buffer(k, v), k.shape[2]

    @property
    def k(self):
        """Keys, (B, G, S, D): a view, not to be written to."""
        return self._buffer.arrays[0][:, :, :self._length]

    @property
    def v(self):
        """Values, (B, G, S, D_V): a view, not to be written to."""
        return self._buffer.arrays[1][:, :, :self._length]

    def __len__(self):
        return self._length

    def append(self, k, v):
        """A cache that also holds these positions; k (B, G, T, D), v (B, G, T, D_V)."""
        after = self.extended(k.shape[2])
        after.k[:, :, len(self):], after.v[:, :, len(self):] = k, v
        return after

    def rows(self, order):
        """A cache of some of the sequences, possibly repeated, as beam search needs it.

        `order` is an array of their indices.
        """
        return KeyValueCache(self.k[order], self.v[order])

    def extended(self, T):
        """A cache of T more positions, whose keys and values the caller writes."""
        after, buffer = object.__new__(KeyValueCache), self._buffer
        if buffer.used != self._length or self._length + T > buffer.arrays[0].shape[2]:
            buffer = _Buffer(self.k, self.v, more=T)
        buffer.used += T
        after._buffer, after._length = buffer, buffer.used
        return after


class _Buffer:
    def __init__(self, k, v, more=0):
        B, G, S, _ = k.shape
        capacity = max(LEAST, 2 * (S + more))
        self.arrays = [np.empty((B, G, capacity, x.shape[-1]), x.dtype) for x in (k, v)]
        self.used = S
        self.arrays[0][:, :, :S], self.arrays[1][:, :, :S] = k, v
