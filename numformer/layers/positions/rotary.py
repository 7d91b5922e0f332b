"""Rotary positions: queries and keys are rotated, so that their products depend on distance."""

from numformer.backend import rotary, rotary_backward
from numformer.checks import check_array, check_choice, check_even, check_number
from numformer.functional import rotary_angles
from numformer.layers.positions.in_attention import AttentionPositions


class RotaryPositions(AttentionPositions):
    """Rotate queries and keys, (B, H, T, D), by angles that grow with their positions: `rotary`.

    There are no parameters, and sequences may have any length. The option `start` of `forward` is
    the position of the first token.

    Parameters
    ----------
    d_head : int
        D, even.
    base : float
        The fastest pair of coordinates completes a turn in 2 pi steps, the slowest in
        2 pi base^((D - 2) / D).
    layout : "half" or "interleaved"
        Which coordinates make a pair.

    Raises
    ------
    ValueError
        If D is odd or the layout unknown.

    References
    ----------
    Su et al. (2021), "RoFormer: Enhanced Transformer with Rotary Position Embedding", eq. 34.

    Examples
    --------
    >>> import numpy as np
    >>> RotaryPositions(2)(np.ones((1, 1, 2, 2)), start=3).round(2)
    array([[[[-1.13, -0.85],
             [ 0.1 , -1.41]]]])
    """

    def __init__(self, d_head, base=10000.0, layout="half"):
        check_choice("RotaryPositions", "layout", layout, ["half", "interleaved"])
        check_number("RotaryPositions", "base", base, least=1)
        check_even("RotaryPositions", "d_head", d_head)
        self.d_head, self.base, self.layout = d_head, base, layout

    def forward(self, x, start=0):
        T = check_array("RotaryPositions", "x", x, "(B, H, T, D)", D=self.d_head)["T"]
        return rotary(x, *self.rotation(start, start + T, x.real.dtype))

    def backward(self, dy, saved):
        return rotary_backward(dy, saved)

    @property
    def only_rotates(self):
        return type(self) is RotaryPositions          # a subclass may compute anything

    def rotation(self, start, stop, dtype):
        return *rotary_angles(start, stop, self.d_head, self.base, dtype), self.layout

    def encode(self, x, start=0):
        return self.forward(x, start)

    def encode_backward(self, dy, saved):
        return self.backward(dy, saved)
