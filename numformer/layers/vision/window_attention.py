"""Attention within windows of an image, and the merging of patches between stages."""

import numpy as np

from numformer.checks import check_array, check_whole
from numformer.description import Description, to
from numformer.functional import (
    cyclic_roll, cyclic_roll_backward, merge_patches, merge_patches_backward, shifted_window_mask,
    window_partition, window_partition_backward, window_reverse, window_reverse_backward)
from numformer.functional.attention.masks import EVERYWHERE, AttentionPattern
from numformer.layers.attention.multi_head import MultiHeadAttention
from numformer.layers.linear import Linear
from numformer.layers.normalization import LayerNorm
from numformer.layers.positions.window_bias import WindowPositionBias
from numformer.parameter import Layer


class WindowAttention(Layer):
    r"""Multi-head attention within windows of M x M vectors, (B, height, width, C) to the same.

    .. math::

        y = \mathrm{roll}_{-o}(\mathrm{reverse}(\mathrm{attention}(\mathrm{partition}(
            \mathrm{roll}_o(x)))))

    The windows are batch entries of a `MultiHeadAttention`, so the cost grows with the area of the
    image, not with its square. With offset o = M / 2, windows lie across the borders of those with
    offset 0; those that were joined by the roll alone are masked: see `shifted_window_mask`.

    Parameters
    ----------
    d_model, n_heads : int
        C and H.
    window : int
        M.
    rng : numpy.random.Generator or None
    offset : int
        o, 0 <= o < M.
    qkv_bias : bool
        Whether the maps of queries, keys and values have biases.
    dropout : float in [0, 1)
        Rate for the attention weights.
    std, output_std : float, optional
        As in `MultiHeadAttention`.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If heads do not divide the width, the offset is out of range, or windows do not divide x.

    References
    ----------
    Liu et al. (2021), "Swin Transformer", section 3.2.

    Examples
    --------
    >>> layer = WindowAttention(8, 2, 4, np.random.default_rng(0), offset=2)
    >>> layer(np.ones((1, 8, 12, 8), np.float32)).shape
    (1, 8, 12, 8)
    """

    def __init__(self, d_model, n_heads, window, rng, offset=0, qkv_bias=True, dropout=0.0,
                 std=None, output_std=None, dtype=np.float32):
        check_whole("WindowAttention", "window", window)
        check_whole("WindowAttention", "offset", offset, least=0)
        if offset >= window:
            raise ValueError(f"WindowAttention: offset={offset} must be below window={window}.")
        positions = WindowPositionBias(n_heads, window, rng, dtype=dtype)
        self.attention = MultiHeadAttention(
            d_model, n_heads, rng, qkv_bias=qkv_bias, positions=positions, dropout=dropout, std=std,
            output_std=output_std, dtype=dtype)
        self.window, self.offset = window, offset

    def forward(self, x, pattern=EVERYWHERE, rng=None):
        """Attend; the pattern is there for `SelfAttentionBranch`, and windows allow no other.

        Parameters
        ----------
        x : ndarray, shape (B, height, width, C)
        pattern : AttentionPattern
            Only `EVERYWHERE`.
        rng : numpy.random.Generator, optional
            For dropout.

        Returns
        -------
        y : ndarray, shape of `x`
        saved : tuple
        """
        if pattern is not EVERYWHERE:
            raise ValueError("WindowAttention: which vectors may attend to each other is given by "
                             "the windows; leave the pattern out.")
        sizes = check_array("WindowAttention", "x", x, "(B, height, width, C)",
                            C=len(self.attention.query.weight.data))
        height, width = sizes["height"], sizes["width"]
        x, saved_roll = cyclic_roll(x, self.offset)                   # (B, height, width, C)
        x, saved_windows = window_partition(x, self.window)           # (B N, M M, C)
        y, saved_attention = self.attention.forward(
            x, pattern=self.pattern(sizes["B"], height, width), rng=rng)
        y, saved_reverse = window_reverse(y, height, width)           # (B, height, width, C)
        y, saved_back = cyclic_roll(y, -self.offset)

        saved = (saved_roll, saved_windows, saved_attention, saved_reverse, saved_back)
        return y, saved

    def backward(self, dy, saved):
        saved_roll, saved_windows, saved_attention, saved_reverse, saved_back = saved

        # y = roll(reverse(attention(windows)))
        dy = cyclic_roll_backward(dy, saved_back)
        dy = window_reverse_backward(dy, saved_reverse)               # (B N, M M, C)
        dx = self.attention.backward(dy, saved_attention)

        # windows = partition(roll(x))
        dx = window_partition_backward(dx, saved_windows)             # (B, height, width, C)
        return cyclic_roll_backward(dx, saved_roll)

    def pattern(self, B, height, width):
        """The `AttentionPattern` of the windows of B feature maps."""
        if not self.offset:
            return EVERYWHERE
        mask = shifted_window_mask(height, width, self.window, self.offset)
        return AttentionPattern(mask=np.tile(mask, (B, 1, 1))[:, None])       # (B N, 1, M M, M M)

    def describe(self):
        inside = self.attention.describe()
        shifted = f", shifted by {self.offset}" if self.offset else ""
        return Description("Window attention", f"{inside.sizes}, windows of {self.window} x "
                           f"{self.window}{shifted}", inside.gradient)

    def describe_parts(self, reader, box):
        B, height, width, C = box.shape
        side, moved = self.window, (r"dx = dy\;\mathrm{moved\ back}",)
        shifted = f" shifted by {self.offset}" if self.offset else ""
        N = reader.letter("N", (height // side) * (width // side))
        attention = box._replace(name="Self-attention", shape=(f"{B} {N}", side * side, C))
        return (reader.function(attention.shape, "Windows", WindowAttention,
                                f"{side} x {side}{shifted}", moved),
                *self.attention.describe_parts(reader, attention),
                reader.function(box.shape, "Windows", WindowAttention, "joined again", moved))


class PatchMerging(Layer):
    r"""Halve the resolution and double the width: (B, height, width, C) to (..., 2 C).

    .. math:: y_{rc} = \mathrm{norm}([\, x_{2r,\, 2c};\; x_{2r + 1,\, 2c};\; x_{2r,\, 2c + 1};\;
              x_{2r + 1,\, 2c + 1} \,])\, W

    Parameters
    ----------
    d_model : int
        C.
    rng : numpy.random.Generator or None
    epsilon : float
        Of the LayerNorm.
    std : float, optional
        Of the initial weight; 1 / sqrt(4 C) unless given.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If the width is not a whole number above 0, or height or width of `x` is odd.

    References
    ----------
    Liu et al. (2021), "Swin Transformer", section 3.1; the norm is in the published code alone.

    Examples
    --------
    >>> PatchMerging(8, np.random.default_rng(0))(np.ones((1, 4, 6, 8), np.float32)).shape
    (1, 2, 3, 16)
    """

    def __init__(self, d_model, rng, epsilon=1e-5, std=None, dtype=np.float32):
        check_whole("PatchMerging", "d_model", d_model)
        self.norm = LayerNorm(4 * d_model, epsilon=epsilon, dtype=dtype)
        self.reduction = Linear(4 * d_model, 2 * d_model, rng, bias=False, std=std, dtype=dtype)

    def forward(self, x):
        check_array("PatchMerging", "x", x, "(B, height, width, C)",
                    C=len(self.norm.weight.data) // 4)
        y, saved_merging = merge_patches(x)                           # (B, ..., ..., 4 C)
        y, saved_norm = self.norm.forward(y)
        y, saved_reduction = self.reduction.forward(y)                # (B, ..., ..., 2 C)

        saved = (saved_merging, saved_norm, saved_reduction)
        return y, saved

    def backward(self, dy, saved):
        saved_merging, saved_norm, saved_reduction = saved

        # y = reduction(norm(merge_patches(x)))
        dy = self.reduction.backward(dy, saved_reduction)
        dy = self.norm.backward(dy, saved_norm)
        return merge_patches_backward(dy, saved_merging)

    def describe(self):
        return Description("Patch merging", to(self.reduction.weight.data, "2 x 2 neighbours"), (
            r"dn = dy\,W^\top", r"dW = n^\top dy", r"[dx_1, \ldots, dx_4] = \mathrm{norm}'(dn)"))
