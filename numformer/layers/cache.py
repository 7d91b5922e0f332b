"""What a decoder remembers of the tokens before: their keys and values, in arrays with room for more."""

import numpy as np

LEAST = 64                                                            # positions that a new room has


class KeyValueCache:
    """Keys and values of the positions so far, (B, G, S, D). A value: `append` returns another one, and the old one stays good.

    Both may share one room. Who appends to the longest of them writes behind it; who appends to a shorter one, whose next place
    is taken, gets a room of its own. A full room is copied into one of twice its size, so a position costs O(1) on average.

    Parameters
    ----------
    k, v : ndarray, shape (B, G, S, D)
        The first positions.

    Examples
    --------
    >>> one = KeyValueCache(np.ones((1, 1, 1, 2)), np.ones((1, 1, 1, 2)))
    >>> two = one.append(np.zeros((1, 1, 1, 2)), np.zeros((1, 1, 1, 2)))
    >>> len(one), len(two), two.k[0, 0].tolist()
    (1, 2, [[1.0, 1.0], [0.0, 0.0]])
    """

    def __init__(self, k, v):
        self._room, self._length = _Room(k, v), k.shape[2]

    @property
    def k(self):
        """Keys, (B, G, S, D): a view, not to be written to."""
        return self._room.arrays[0][:, :, :self._length]

    @property
    def v(self):
        """Values, (B, G, S, D): a view, not to be written to."""
        return self._room.arrays[1][:, :, :self._length]

    def __len__(self):
        return self._length

    def append(self, k, v):
        """A cache that holds these positions too; k, v (B, G, T, D)."""
        after = self.with_room(k.shape[2])
        after.k[:, :, len(self):], after.v[:, :, len(self):] = k, v
        return after

    def rows(self, order):
        """A cache of some of the sequences, or of one several times: what a beam search keeps; order, array of int."""
        return KeyValueCache(self.k[order], self.v[order])

    @property
    def places(self):
        """(keys, values, capacity): where the room's arrays (B, G, capacity, D) lie, and for how many positions, for a kernel."""
        return self._room.places

    def with_room(self, T):
        """A cache of T positions more, of which the caller says what they are."""
        after, room = object.__new__(KeyValueCache), self._room
        if room.used != self._length or self._length + T > room.arrays.shape[3]:
            room = _Room(self.k, self.v, more=T)
        room.used += T
        after._room, after._length = room, room.used
        return after


class _Room:
    def __init__(self, k, v, more=0):
        B, G, S, D = k.shape
        self.arrays = np.empty((2, B, G, max(LEAST, 2 * (S + more)), D), k.dtype)
        self.used = S
        self.arrays[0][:, :, :S], self.arrays[1][:, :, :S] = k, v
        self.places = *(array.ctypes.data for array in self.arrays), self.arrays.shape[3]
