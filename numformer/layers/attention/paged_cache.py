"""The paged KV cache: keys and values of several texts of any lengths, which never move."""

import numpy as np


class PagedCache:
    """Keys and values of the positions of several texts so far, in pages of some positions each.

    A text has as many pages as it needs, so texts may have different lengths, and nothing is copied
    when they grow. It is a value, as `KeyValueCache`: `extended` returns another cache, and the old
    one stays valid. Both share pages. Behind the last position of a page whoever comes first may
    write; who comes second gets a copy of that one page.

    Parameters
    ----------
    shape : tuple of int
        Of a page: (L, 2, G, D positions), keys (D, positions) and values (positions, D) of each
        block and head.
    positions : int
        Of a page.
    dtype : dtype
    texts : int
        B; they have no positions yet.

    Examples
    --------
    >>> one = PagedCache((1, 2, 1, 8), 4, np.dtype(float), texts=2)
    >>> two = one.extended(np.array([3, 5]))
    >>> one.lengths, two.lengths, [len(pages) for pages in two.pages]
    (array([0, 0]), array([3, 5]), [1, 2])
    """

    def __init__(self, shape, positions, dtype, texts=0):
        self.shape, self.positions, self.dtype = shape, positions, dtype
        self.lengths, self.pages = np.zeros(texts, np.int64), [()] * texts

    def __len__(self):
        """Positions of the longest text."""
        return int(self.lengths.max(initial=0))

    @property
    def addresses(self):
        """Addresses of the pages of each text, for a kernel: (B, most pages), 0 after the last."""
        found = np.zeros((len(self.pages), max(map(len, self.pages))), np.int64)
        for row, pages in zip(found, self.pages):
            row[:len(pages)] = [page.address for page in pages]
        return found

    def extended(self, more):
        """A cache of `more` (B,) further positions, whose keys and values the caller writes."""
        return self._with(self.lengths + more, [
            self._extended(pages, int(length), int(length + new))
            for pages, length, new in zip(self.pages, self.lengths, more)])

    def rows(self, order):
        """A cache of some of the texts, possibly repeated: `order` is an array of their indices."""
        return self._with(self.lengths[order], [self.pages[b] for b in order])

    def restarted(self, which):
        """A cache in which those texts have no positions: `which` is a mask (B,)."""
        return self._with(np.where(which, 0, self.lengths), [
            () if restart else pages for restart, pages in zip(which, self.pages)])

    def keys_and_values(self, layer, head_width):
        """k and v of a block, copied to (B, G, S, D), with left padding of shorter texts."""
        _, _, G, _ = self.shape
        B, S, D, P = len(self.pages), len(self), head_width, self.positions
        k, v = np.zeros((2, B, G, S, D), self.dtype)
        for b, (pages, length) in enumerate(zip(self.pages, self.lengths)):
            for n, page in enumerate(pages):
                stop = min(P, length - n * P)
                at = slice(S - length + n * P, S - length + n * P + stop)
                k[b, :, at] = page.array[layer, 0].reshape(G, D, P).transpose(0, 2, 1)[:, :stop]
                v[b, :, at] = page.array[layer, 1].reshape(G, P, D)[:, :stop]
        return k, v

    def _with(self, lengths, pages):
        other = PagedCache(self.shape, self.positions, self.dtype)
        other.lengths, other.pages = lengths, pages
        return other

    def _extended(self, pages, length, new_length):
        """The pages of one text with space for positions up to the new length."""
        pages, full = list(pages), length // self.positions
        if length % self.positions and new_length > length:
            if pages[full].used != length % self.positions:           # another text wrote here
                pages[full] = _Page(pages[full].array.copy())
            pages[full].used = min(self.positions, new_length - full * self.positions)
        for first in range(len(pages) * self.positions, new_length, self.positions):
            page = _Page(np.empty(self.shape, self.dtype))
            page.used = min(self.positions, new_length - first)
            pages.append(page)
        return tuple(pages)


class _Page:
    """One array and how many of its positions are taken."""

    def __init__(self, array):
        self.array, self.used, self.address = array, 0, array.ctypes.data
