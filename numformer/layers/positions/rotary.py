"""Rotary positions: queries and keys are rotated, so that their products depend on distance."""

from numformer.backend import rotary, rotary_backward
from numformer.checks import check_array, check_choice, check_even, check_number, check_whole
from numformer.description import Description
from numformer.functional import partial_rotary, partial_rotary_backward, scaled_frequencies
from numformer.functional.positions.rotary import angles_of
from numformer.layers.positions.in_attention import AttentionPositions


MOST_ROTATED = 2**16                                  # coordinates of a head


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
    d_rotary : int, optional
        R, even: only the first R of D coordinates are rotated, see `partial_rotary`; D unless
        given. The equations above then have R in place of D.
    scaling : dict, optional
        For longer texts than those of pretraining: see `scaled_frequencies`.

    Raises
    ------
    ValueError, TypeError
        If D or R is odd or above 65536, R above D, the layout unknown, or the scaling does not fit.

    References
    ----------
    Su et al. (2021), "RoFormer: Enhanced Transformer with Rotary Position Embedding", eq. 34.
    Part of a head: Black et al. (2022), "GPT-NeoX-20B", section 2.1.1.

    Examples
    --------
    >>> import numpy as np
    >>> RotaryPositions(2)(np.ones((1, 1, 2, 2)), start=3).round(2)
    array([[[[-1.13, -0.85],
             [ 0.1 , -1.41]]]])
    """

    scheme = "rotary"
    in_words = "rotary positions at q and k"

    def __init__(self, d_head, base=10000.0, layout="half", d_rotary=None, scaling=None):
        check_choice("RotaryPositions", "layout", layout, ["half", "interleaved"])
        check_number("RotaryPositions", "base", base, least=1)
        check_d_rotary("RotaryPositions", d_head, d_rotary)
        self.d_head, self.base, self.layout = d_head, base, layout
        self.d_rotary, self.scaling = d_rotary, scaling
        frequencies, factor = scaled_frequencies(self.rotated_width, base, scaling)
        self.angles = tuple(frequencies), factor

    @classmethod
    def of_config(cls, config, rng=None, bidirectional=True):
        c = config
        return cls(c.head_width, c.rotary_base, c.rotary_layout, c.d_rotary, c.rotary_scaling)

    @classmethod
    def check_config(cls, owner, config):
        if config.d_rotary is None and config.head_width % 2:
            name = "d_model / n_heads" if config.d_head is None else "d_head"
            raise ValueError(
                f"{owner}: rotary positions need heads of even width, but {name} = "
                f"{config.head_width}; use another n_heads or d_head, or other positions.")

    def forward(self, x, start=0):
        T = check_array("RotaryPositions", "x", x, "(B, H, T, D)", D=self.d_head)["T"]
        rotate = rotary if self.rotated_width == self.d_head else partial_rotary
        return rotate(x, *self.rotation(start, start + T, x.real.dtype))

    def backward(self, dy, saved):
        if self.rotated_width == self.d_head:
            return rotary_backward(dy, saved)
        return partial_rotary_backward(dy, saved)

    @property
    def rotated_width(self):
        """R, with its default."""
        return self.d_head if self.d_rotary is None else self.d_rotary

    @property
    def attention_factor(self):
        """What rotated vectors are multiplied by: 1.0, but for YaRN's scaling."""
        return self.angles[1]

    @property
    def only_rotates(self):
        # a subclass may compute anything
        return type(self) is RotaryPositions and self.rotated_width == self.d_head

    def rotation(self, start, stop, dtype):
        return *angles_of(start, stop, *self.angles, dtype), self.layout

    def encode(self, x, start=0):
        return self.forward(x, start)

    def encode_backward(self, dy, saved):
        return self.backward(dy, saved)

    def describe(self):
        return Description("Rotary positions", "pairs are rotated", (r"dx = R_t^\top dy",))


def check_d_rotary(owner, d_head, d_rotary):
    """Check that pairs of coordinates can be rotated: D is even, or R, which is at most D."""
    rotated = ("d_head", d_head) if d_rotary is None else ("d_rotary", d_rotary)
    check_even(owner, *rotated)
    check_whole(owner, *rotated, most=MOST_ROTATED)
    if d_rotary is not None and d_rotary > d_head:
        raise ValueError(f"{owner}: d_rotary={d_rotary} must be at most the width of a head, "
                         f"{d_head}.")
