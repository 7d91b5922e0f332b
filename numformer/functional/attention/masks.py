"""Attention patterns: which query may attend to which key, as rules that a kernel can use."""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np


@dataclass(frozen=True, eq=False)
class AttentionPattern:
    """Which query may attend to which key. If several rules are given, all must allow it.

    The rules keep their structure, so that a kernel can skip whole tiles; `dense` gives the mask.
    Queries and keys are aligned at their ends: query i of T is at position i + S - T among S keys.
    So a decoder with S - T keys in its cache and T new tokens needs nothing but ``causal=True``.

    Parameters
    ----------
    causal : bool
        No query attends to a later key.
    window : tuple (left, right), optional
        Local attention: a query at position p attends to keys p - left .. p + right only. None in
        place of a number leaves that side open.
    lengths : array of int, shape (B,), optional
        Padding: only the first ``lengths[b]`` keys of example b are real.
    documents : array of int, shape (B, S), optional
        Packed sequences: the document of each key. The keys of a document are adjacent, and no
        query attends to a key of another document. The T queries belong to the documents of the
        last T keys, so T <= S.
    mask : ndarray of bool, shape (T, S), (B, 1, T, S) or (B, H, T, S), optional
        Any other rule. True: may attend. It is not copied; do not write to it while the pattern is
        in use.

    Raises
    ------
    ValueError, TypeError
        If a rule is not of that form.

    References
    ----------
    Causal: Vaswani et al. (2017), section 3.2.3. Window: Beltagy et al. (2020), "Longformer",
    section 3.1. Packing: Krell et al. (2021), "Efficient Sequence Packing without
    Cross-contamination".

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
            object.__setattr__(self, "window", _checked_window(self.window))
        if self.lengths is not None:
            object.__setattr__(self, "lengths", _checked_lengths(self.lengths))
        if self.documents is not None:
            object.__setattr__(self, "documents", _checked_documents(self.documents))
        if self.mask is not None:
            if not isinstance(self.mask, np.ndarray) or self.mask.dtype != bool:
                raise TypeError(
                    "AttentionPattern: mask must be an array of bool, True = may attend, but is "
                    f"{getattr(self.mask, 'dtype', type(self.mask).__name__)}.")
            if self.mask.ndim not in (2, 4):
                raise ValueError(f"AttentionPattern: mask must have shape (T, S) or (B, H, T, S), "
                                 f"but has shape {self.mask.shape}.")

    def local(self, window):
        """This pattern, narrowed to a window. All its rules stay.

        Parameters
        ----------
        window : tuple (left, right)
            As in the constructor. If the pattern has a window already, the narrower one holds on
            each side.

        Raises
        ------
        ValueError
            If the window is not a pair of whole numbers or None.

        Examples
        --------
        >>> AttentionPattern(causal=True).local((1, 1)).dense(3, 3).astype(int)
        array([[1, 0, 0],
               [1, 1, 0],
               [0, 1, 1]])
        """
        if window is None:
            raise ValueError("AttentionPattern: local needs a window (left, right); "
                             "None in place of a number leaves that side open.")
        window = _checked_window(window)
        if self.window is not None:
            window = tuple(min((side for side in sides if side is not None), default=None)
                           for sides in zip(self.window, window))
        return replace(self, window=window)

    def check(self, B, H, T, S):
        """Raise a ValueError if lengths, documents or mask do not fit B, H, T and S.

        `intervals` and `dense` check T and S of lengths and documents.
        """
        for name, rule in (("lengths", self.lengths), ("documents", self.documents)):
            if rule is not None and len(rule) not in (1, B):
                raise ValueError(f"AttentionPattern: {name} of shape {rule.shape} must have one "
                                 f"entry for each of the B={B} examples.")
        if self.mask is not None and (self.mask.shape[-2:] != (T, S) or self.mask.ndim == 4 and (
                self.mask.shape[0] not in (1, B) or self.mask.shape[1] not in (1, H))):
            raise ValueError(
                f"AttentionPattern: mask of shape {self.mask.shape} must have shape (T, S) or "
                f"(B, H, T, S) with (B, H, T, S) = ({B}, {H}, {T}, {S}); B and H may be 1.")

    def intervals(self, T, S):
        """All rules but the mask, as one interval of keys for each query: first .. last - 1.

        Returns
        -------
        first, last : ndarray of int32, shape (1, T), or (B, T) where lengths or documents are given
            0 .. S. Where last <= first the query may attend to no key. Neither decreases from a
            query to the next.

        Raises
        ------
        ValueError
            If lengths or documents do not fit T and S.

        Examples
        --------
        >>> AttentionPattern(window=(1, 0)).intervals(3, 3)
        (array([[0, 0, 1]], dtype=int32), array([[1, 2, 3]], dtype=int32))
        """
        first, last = _common_intervals(self.causal, self.window, T, S)          # (1, T)
        if self.lengths is not None:
            if self.lengths.max() > S:
                raise ValueError(f"AttentionPattern: a length of {self.lengths.max()} is more than "
                                 f"the S={S} keys.")
            last = np.minimum(last, self.lengths[:, None].astype(np.int32))      # (B, T)
        if self.documents is not None:
            if self.documents.shape[1] != S or T > S:
                raise ValueError(
                    f"AttentionPattern: documents of shape {self.documents.shape} must have one "
                    f"number for each of the S={S} keys, and the T={T} queries must be the last.")
            if self.lengths is not None and len(self.lengths) != len(self.documents):
                raise ValueError(f"AttentionPattern: {len(self.lengths)} lengths and "
                                 f"{len(self.documents)} rows of documents differ in B.")
            starts, stops = _document_intervals(self.documents)                  # (B, S)
            first, last = np.maximum(first, starts[:, S - T:]), np.minimum(last, stops[:, S - T:])
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
        first, last = self.intervals(T, S)               # (1, T) or (B, T)
        key = np.arange(S)                               # (S,)
        allowed = (first[:, None, :, None] <= key) & (key < last[:, None, :, None])
        if self.lengths is None and self.documents is None:
            allowed = allowed[0, 0]                      # (T, S); else (B, 1, T, S)
        if self.mask is None:
            return allowed
        if self.mask.shape[-2:] != (T, S):
            raise ValueError(f"AttentionPattern: mask of shape {self.mask.shape} must end in "
                             f"(T, S) = ({T}, {S}).")
        if self.mask.ndim == 4 and len(first) > 1 and self.mask.shape[0] not in (1, len(first)):
            raise ValueError(f"AttentionPattern: mask of shape {self.mask.shape} and {len(first)} "
                             "lengths or documents differ in B.")
        return allowed & self.mask


EVERYWHERE = AttentionPattern()
CAUSAL = AttentionPattern(causal=True)


@lru_cache(maxsize=64)
def _common_intervals(causal, window, T, S):
    """The intervals of the rules that are the same for all examples: int32 (1, T), read-only."""
    position = np.arange(S - T, S, dtype=np.int32)[None]             # of the queries among the keys
    left, right = window or (None, None)
    right = S + T if right is None else min(right, S + T)
    right = min(right, 0) if causal else right           # causal: a window that ends at the query
    last = np.minimum(np.maximum(position + (right + 1), 0), S).astype(np.int32)
    first = (np.zeros_like(last) if left is None
             else np.maximum(position - min(left, S), 0).astype(np.int32))
    first.flags.writeable = last.flags.writeable = False
    return first, last


def _document_intervals(documents):
    """First and last + 1 of the keys in the document of each key; both int32 (B, S)."""
    S = documents.shape[1]
    key = np.arange(S, dtype=np.int32)
    border = documents[:, 1:] != documents[:, :-1]       # (B, S - 1): between key and key + 1
    starts = np.pad(np.where(border, key[1:], 0), ((0, 0), (1, 0)))
    stops = np.pad(np.where(border, key[1:], np.int32(S)), ((0, 0), (0, 1)), constant_values=S)
    starts = np.maximum.accumulate(starts, axis=1)
    stops = np.minimum.accumulate(stops[:, ::-1], axis=1)[:, ::-1]
    return starts, stops


def _checked_window(window):
    sides = tuple(window) if isinstance(window, (tuple, list)) else ()
    if len(sides) != 2 or not all(side is None or _is_count(side) for side in sides):
        raise ValueError(f"AttentionPattern: window={window!r} must be a pair (left, right) of "
                         "whole numbers, 0 or more, or None for an open side.")
    return tuple(side if side is None else int(side) for side in sides)


def _is_count(x):
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool) and x >= 0


def _checked_lengths(lengths):
    checked = np.array(lengths)
    if (checked.ndim != 1 or checked.dtype.kind not in "iu" or checked.size == 0
            or checked.min() < 0):
        raise ValueError(f"AttentionPattern: lengths={lengths!r} must be whole numbers, 0 or more, "
                         "one for each of the B examples.")
    return checked


def _checked_documents(documents):
    documents = np.array(documents)
    if documents.ndim != 2 or documents.dtype.kind not in "iu" or documents.size == 0:
        raise ValueError(
            "AttentionPattern: documents must be whole numbers of shape (B, S), the document of "
            f"each key, but have shape {documents.shape} and dtype {documents.dtype}.")
    for row in documents:
        if 1 + np.count_nonzero(np.diff(row)) != len(np.unique(row)):
            raise ValueError(
                "AttentionPattern: the keys of one document must be side by side, but documents "
                "has a row in which a number comes back after another; number its documents "
                "0, 1, 2 ...")
    return documents
