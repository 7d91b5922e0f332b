"""Which query may attend to which key: the structure of a mask, before the mask itself."""

from dataclasses import dataclass

import numpy as np


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
    mask : ndarray of bool, shape (T, S), (B, 1, T, S) or (B, H, T, S), optional
        Anything else. True: may attend.

    Raises
    ------
    ValueError, TypeError
        If a rule is not of that form.

    References
    ----------
    Causal: Vaswani et al. (2017), section 3.2.3. Window: Beltagy et al. (2020), "Longformer", section 3.1.

    Examples
    --------
    >>> AttentionPattern(causal=True).dense(2, 3).astype(int)
    array([[1, 1, 0],
           [1, 1, 1]])
    >>> AttentionPattern(window=(1, 0)).dense(3, 3).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [0, 1, 1]])
    """

    causal: bool = False
    window: tuple | None = None
    lengths: np.ndarray | None = None
    mask: np.ndarray | None = None

    def __post_init__(self):
        if self.window is not None:
            sides = tuple(self.window) if isinstance(self.window, (tuple, list)) else ()
            if len(sides) != 2 or any(side is not None and (not isinstance(side, (int, np.integer)) or side < 0) for side in sides):
                raise ValueError(f"AttentionPattern: window={self.window!r} must be a pair (left, right) of whole numbers, "
                                 "0 or more, or None for an open side.")
        if self.lengths is not None:
            lengths = np.asarray(self.lengths)
            if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or lengths.size == 0 or lengths.min() < 0:
                raise ValueError(f"AttentionPattern: lengths={self.lengths!r} must be whole numbers, 0 or more, "
                                 "one for each of the B examples.")
            object.__setattr__(self, "lengths", lengths)
        if self.mask is not None and (not isinstance(self.mask, np.ndarray) or self.mask.dtype != bool):
            came = getattr(self.mask, "dtype", type(self.mask).__name__)
            raise TypeError(f"AttentionPattern: mask must be an array of bool, True = may attend, but is {came}.")
        if self.mask is not None and self.mask.ndim not in (2, 4):
            raise ValueError(f"AttentionPattern: mask must have shape (T, S) or (B, H, T, S), but has shape {self.mask.shape}.")

    def dense(self, T, S):
        """The mask of this pattern for T queries and S keys.

        Returns
        -------
        ndarray of bool, shape (T, S), (B, 1, T, S) or (B, H, T, S)
            True: may attend.

        Raises
        ------
        ValueError
            If lengths or mask do not fit T and S.
        """
        position = np.arange(T)[:, None] + (S - T)                    # (T, 1) of the query among the keys
        key = np.arange(S)                                            # (S,)
        allowed = np.ones((T, S), bool)
        if self.causal:
            allowed &= key <= position
        if self.window is not None:
            left, right = self.window
            if left is not None:
                allowed &= key >= position - left
            if right is not None:
                allowed &= key <= position + right
        if self.lengths is not None:
            if self.lengths.max() > S:
                raise ValueError(f"AttentionPattern: a length of {self.lengths.max()} is more than the S={S} keys.")
            allowed = allowed & (key < self.lengths[:, None, None, None])     # (B, 1, T, S)
        if self.mask is not None:
            if self.mask.shape[-2:] != (T, S):
                raise ValueError(f"AttentionPattern: mask of shape {self.mask.shape} must end in (T, S) = ({T}, {S}).")
            if self.mask.ndim == 4 and self.lengths is not None and self.mask.shape[0] not in (1, len(self.lengths)):
                raise ValueError(f"AttentionPattern: mask of shape {self.mask.shape} and {len(self.lengths)} lengths differ in B.")
            allowed = allowed & self.mask
        return allowed


EVERYWHERE = AttentionPattern()
CAUSAL = AttentionPattern(causal=True)
