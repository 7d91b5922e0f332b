"""Which query may attend to which key: the structure of a mask, before the mask itself."""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from numformer.checks import check_whole


@dataclass(frozen=True, eq=False)
class AttentionPattern:
    """Who may attend to whom, told by rules, so that a kernel can leave out whole tiles. All rules must agree.

    Queries and keys are aligned at their ends: with T queries and S keys, query i stands at key position i + S - T. So a
    decoder that has S - T keys in its cache and T new tokens is causal without further ado.

    Parameters
    ----------
    causal : bool
        A query attends to no later key.
    window : tuple (left, right), optional
        A query at position p attends to keys p - left .. p + right alone: local attention. None in either place leaves
        that side open.
    lengths : array of int, shape (B,), optional
        Key padding: in example b only the first ``lengths[b]`` keys are real.
    documents : array of int, shape (B, S), optional
        Packed sequences: the document that each key belongs to, one run of keys each. No attention crosses from one document
        into another. The T queries belong to the documents of the last T keys, so T <= S.
    mask : ndarray of bool, shape (T, S), (B, 1, T, S) or (B, H, T, S), optional
        Anything else. True: may attend. It is not copied, and must not be written to while the pattern is in use.

    Raises
    ------
    ValueError, TypeError
        If a rule is not of that form.

    References
    ----------
    Causal: Vaswani et al. (2017), section 3.2.3. Window: Beltagy et al. (2020), "Longformer", section 3.1. Packing: Krell et al.
    (2021), "Efficient Sequence Packing without Cross-contamination".

    Examples
    --------
    >>> AttentionPattern(causal=True).dense(2, 3).astype(int)
    array([[1, 1, 0],
           [1, 1, 1]])
    >>> AttentionPattern(window=(1, 0)).dense(3, 3).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [0, 1, 1]])
    >>> AttentionPattern(causal=True, documents=[[0, 0, 1]]).dense(3, 3)[0, 0].astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [0, 0, 1]])
    """

    causal: bool = False
    window: tuple | None = None
    lengths: np.ndarray | None = None
    documents: np.ndarray | None = None
    mask: np.ndarray | None = None

    def __post_init__(self):
        if not isinstance(self.causal, (bool, np.bool_)):
            raise TypeError(f"AttentionPattern: causal={self.causal!r} must be True or False.")
        if self.window is not None:
            sides = tuple(self.window) if isinstance(self.window, (tuple, list)) else ()
            if len(sides) != 2 or any(side is not None and (isinstance(side, bool) or not isinstance(side, (int, np.integer)) or side < 0)
                                      for side in sides):
                raise ValueError(f"AttentionPattern: window={self.window!r} must be a pair (left, right) of whole numbers, "
                                 "0 or more, or None for an open side.")
            object.__setattr__(self, "window", tuple(side if side is None else int(side) for side in sides))
        if self.lengths is not None:
            lengths = np.array(self.lengths)
            if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or lengths.size == 0 or lengths.min() < 0:
                raise ValueError(f"AttentionPattern: lengths={self.lengths!r} must be whole numbers, 0 or more, "
                                 "one for each of the B examples.")
            object.__setattr__(self, "lengths", lengths)
        if self.documents is not None:
            documents = np.array(self.documents)
            if documents.ndim != 2 or documents.dtype.kind not in "iu" or documents.size == 0:
                raise ValueError("AttentionPattern: documents must be whole numbers of shape (B, S), the document of each key, "
                                 f"but have shape {documents.shape} and dtype {documents.dtype}.")
            for row in documents:
                if 1 + np.count_nonzero(np.diff(row)) != len(np.unique(row)):
                    raise ValueError("AttentionPattern: the keys of one document must stand side by side, but documents has a row "
                                     "in which a number comes back after another; number its runs 0, 1, 2 ...")
            object.__setattr__(self, "documents", documents)
        if self.mask is not None and (not isinstance(self.mask, np.ndarray) or self.mask.dtype != bool):
            came = getattr(self.mask, "dtype", type(self.mask).__name__)
            raise TypeError(f"AttentionPattern: mask must be an array of bool, True = may attend, but is {came}.")
        if self.mask is not None and self.mask.ndim not in (2, 4):
            raise ValueError(f"AttentionPattern: mask must have shape (T, S) or (B, H, T, S), but has shape {self.mask.shape}.")

    def local(self, window):
        """This pattern, narrowed to a window: all its rules stay, and a query sees no farther than left and right.

        Parameters
        ----------
        window : tuple (left, right)
            As in the constructor. A window that the pattern has already stays too: on each side the nearer border holds.

        Raises
        ------
        ValueError
            If the window is no pair of whole numbers or None.

        Examples
        --------
        >>> AttentionPattern(causal=True).local((1, 1)).dense(3, 3).astype(int)
        array([[1, 0, 0],
               [1, 1, 0],
               [0, 1, 1]])
        """
        window = AttentionPattern(window=window).window
        if window is None:
            raise ValueError("AttentionPattern: local needs a window (left, right); None in either place leaves that side open.")
        if self.window is not None:
            window = tuple(min((side for side in sides if side is not None), default=None) for sides in zip(self.window, window))
        return replace(self, window=window)

    def check(self, B, H, T, S):
        """Raise a ValueError if this pattern does not fit B, H or the mask's T and S; `intervals` and `dense` see to the rest."""
        for name, rule in (("lengths", self.lengths), ("documents", self.documents)):
            if rule is not None and len(rule) not in (1, B):
                raise ValueError(f"AttentionPattern: {name} of shape {rule.shape} must have one entry for each of the B={B} examples.")
        if self.mask is not None and (self.mask.shape[-2:] != (T, S) or self.mask.ndim == 4 and (
                self.mask.shape[0] not in (1, B) or self.mask.shape[1] not in (1, H))):
            raise ValueError(f"AttentionPattern: mask of shape {self.mask.shape} must have shape (T, S) or (B, H, T, S) with "
                             f"(B, H, T, S) = ({B}, {H}, {T}, {S}); B and H may be 1.")

    def intervals(self, T, S):
        """All rules but the mask, as one interval of keys for each query: it may attend to first .. last - 1.

        Returns
        -------
        first, last : ndarray of int32, shape (1, T), or (B, T) where lengths or documents tell examples apart
            0 .. S. Where last <= first the query may attend to nothing.

        Raises
        ------
        ValueError
            If lengths or documents do not fit T and S.

        Examples
        --------
        >>> AttentionPattern(window=(1, 0)).intervals(3, 3)
        (array([[0, 0, 1]], dtype=int32), array([[1, 2, 3]], dtype=int32))
        """
        first, last = _borders(self.causal, self.window, T, S)        # (1, T)
        if self.lengths is not None:
            if self.lengths.max() > S:
                raise ValueError(f"AttentionPattern: a length of {self.lengths.max()} is more than the S={S} keys.")
            last = np.minimum(last, self.lengths[:, None].astype(np.int32))   # (B, T)
        if self.documents is not None:
            if self.documents.shape[1] != S or T > S:
                raise ValueError(f"AttentionPattern: documents of shape {self.documents.shape} must have one number for each of the "
                                 f"S={S} keys, and the T={T} queries must be the last of them.")
            if self.lengths is not None and len(self.lengths) != len(self.documents):
                raise ValueError(f"AttentionPattern: {len(self.lengths)} lengths and {len(self.documents)} rows of documents differ in B.")
            begins, ends = _runs(self.documents)                      # (B, S)
            first, last = np.maximum(first, begins[:, S - T:]), np.minimum(last, ends[:, S - T:])
        if len(first) < len(last):
            first = np.repeat(first, len(last), axis=0)
        return np.ascontiguousarray(first), np.ascontiguousarray(last)

    def dense(self, T, S):
        """The mask of this pattern for T queries and S keys.

        Returns
        -------
        ndarray of bool, shape (T, S), (B, 1, T, S) or (B, H, T, S)
            True: may attend.

        Raises
        ------
        ValueError
            If lengths, documents or mask do not fit T and S.
        """
        first, last = self.intervals(T, S)                            # (1, T) or (B, T)
        key = np.arange(S)                                            # (S,)
        allowed = (first[:, None, :, None] <= key) & (key < last[:, None, :, None])   # (1, 1, T, S) or (B, 1, T, S)
        if self.lengths is None and self.documents is None:
            allowed = allowed[0, 0]                                   # (T, S)
        if self.mask is not None:
            if self.mask.shape[-2:] != (T, S):
                raise ValueError(f"AttentionPattern: mask of shape {self.mask.shape} must end in (T, S) = ({T}, {S}).")
            if self.mask.ndim == 4 and len(first) > 1 and self.mask.shape[0] not in (1, len(first)):
                raise ValueError(f"AttentionPattern: mask of shape {self.mask.shape} and {len(first)} lengths or documents differ in B.")
            allowed = allowed & self.mask
        return allowed


@lru_cache(maxsize=64)
def _borders(causal, window, T, S):
    """The intervals of the rules that are the same for every example: int32 (1, T), not to be written to."""
    position = np.arange(S - T, S, dtype=np.int32)[None]              # of the queries among the keys
    left, right = window or (None, None)
    right = min(0 if causal else S + T, S + T if right is None else right)    # causal is a window that ends at the query itself
    last = np.minimum(np.maximum(position + (right + 1), 0), S).astype(np.int32)
    first = np.zeros_like(last) if left is None else np.maximum(position - min(left, S), 0).astype(np.int32)
    first.flags.writeable = last.flags.writeable = False
    return first, last


def _runs(documents):
    """Where the run of equal numbers around each position begins, and where it ends (exclusive); both int32 (B, S)."""
    S = documents.shape[1]
    key = np.arange(S, dtype=np.int32)
    border = documents[:, 1:] != documents[:, :-1]                    # (B, S - 1): between key and key + 1
    begins = np.maximum.accumulate(np.pad(np.where(border, key[1:], 0), ((0, 0), (1, 0))), axis=1)
    ends = np.minimum.accumulate(np.pad(np.where(border, key[1:], np.int32(S)), ((0, 0), (0, 1)), constant_values=S)[:, ::-1], axis=1)
    return begins, ends[:, ::-1]


EVERYWHERE = AttentionPattern()
CAUSAL = AttentionPattern(causal=True)


def layer_patterns(pattern, n_layers, window, global_every, global_first=True):
    """The pattern of each layer of a stack in which most layers look near by, and every few of them everywhere.

    Local layers cost T times the window instead of T times T; the global ones between them carry news across the whole text.

    Parameters
    ----------
    pattern : AttentionPattern
        What holds in all layers: causal, lengths, documents.
    n_layers : int
    window : tuple (left, right)
        How far a local layer sees. Published numbers count differently: "128 tokens" of ModernBERT are (64, 64), a "sliding window
        of 4096" of Gemma, which counts the query itself, is (4095, 0).
    global_every : int
        One layer in so many is global.
    global_first : bool
        Whether a group begins with its global layer (ModernBERT: layers 0, 3, 6 ... of every 3) or ends with it (Gemma 2: layers
        1, 3, 5 ... of every 2; Gemma 3: layers 5, 11 ... of every 6).

    Returns
    -------
    list of AttentionPattern
        One for each layer; only two different ones.

    Raises
    ------
    ValueError, TypeError
        If an argument is not of that form.

    References
    ----------
    Warner et al. (2024), "Smarter, Better, Faster, Longer" (ModernBERT), section 2.1.2. Gemma Team (2024), "Gemma 2", section 2.

    Examples
    --------
    >>> [pattern.window for pattern in layer_patterns(EVERYWHERE, 4, (64, 64), global_every=3)]
    [None, (64, 64), (64, 64), None]
    >>> [pattern.window for pattern in layer_patterns(CAUSAL, 4, (4095, 0), global_every=2, global_first=False)]
    [(4095, 0), None, (4095, 0), None]
    """
    if not isinstance(pattern, AttentionPattern):
        raise TypeError(f"layer_patterns: pattern must be an AttentionPattern, but is {type(pattern).__name__}.")
    check_whole("layer_patterns", "n_layers", n_layers)
    check_whole("layer_patterns", "global_every", global_every)
    if not isinstance(global_first, (bool, np.bool_)):
        raise TypeError(f"layer_patterns: global_first={global_first!r} must be True or False.")
    local, place = pattern.local(window), 0 if global_first else global_every - 1
    return [pattern if i % global_every == place else local for i in range(n_layers)]
