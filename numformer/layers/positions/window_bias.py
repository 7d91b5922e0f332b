"""Swin's relative position bias: a learned number for every two-dimensional distance."""

import numpy as np

from numformer.checks import check_whole
from numformer.description import Description
from numformer.functional import (
    softmax, window_attention, window_attention_backward, window_position_bias,
    window_position_bias_backward)
from numformer.layers.positions.in_attention import AttentionPositions
from numformer.parameter import normal


class WindowPositionBias(AttentionPositions):
    r"""Attention within windows of M x M positions, with a bias by rows and columns between them.

    .. math:: z_{hij} = s\, q_{hi} \cdot k_{hj} + \mathrm{table}_{d(i, j),\, h}

    Each of (2 M - 1)^2 distances has a number for each head.

    Parameters
    ----------
    n_heads : int
        H.
    window : int
        M.
    rng : numpy.random.Generator or None
    std : float
        Of the initial table.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If a size is not a whole number above 0, or windows have another size.

    References
    ----------
    Liu et al. (2021), "Swin Transformer", eq. 4.

    Examples
    --------
    >>> layer = WindowPositionBias(2, 7, np.random.default_rng(0))
    >>> layer
    WindowPositionBias(weight=(169, 2), n_heads=2, window=7)
    >>> q = k = v = np.zeros((3, 2, 49, 4), np.float32)
    >>> layer(q, k, v).shape
    (3, 2, 49, 4)
    """

    in_words = "relative bias added to scores"
    score_term = "relative bias"

    caps_scores = False

    def __init__(self, n_heads, window, rng, std=0.02, dtype=np.float32):
        for name, size in (("n_heads", n_heads), ("window", window)):
            check_whole("WindowPositionBias", name, size)
        self.weight = normal(rng, ((2 * window - 1) ** 2, n_heads), std, dtype)
        self.n_heads, self.window = n_heads, window

    def forward(self, q, k, v, **options):
        """Options as in `window_attention`."""
        bias, saved_bias = window_position_bias(self.weight.data, self.window)    # (H, T, T)
        o, saved_attention = window_attention(q, k, v, bias, **options)

        saved = (saved_bias, saved_attention)
        return o, saved

    def backward(self, dy, saved):
        saved_bias, saved_attention = saved

        # o = window_attention(q, k, v, bias)
        dq, dk, dv, dbias = window_attention_backward(dy, saved_attention)

        # bias = window_position_bias(weight, window)
        self.weight.grad += window_position_bias_backward(dbias, saved_bias)
        return dq, dk, dv

    def attend(self, q, k, v, pattern, scale, dropout=0.0, seed=None, softcap=None):
        return self.forward(q, k, v, pattern=pattern, scale=scale, dropout=dropout, seed=seed)

    def attend_backward(self, do, saved):
        return self.backward(do, saved)

    def weights(self, q, k, pattern, scale, softcap=None):
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        bias, _ = window_position_bias(self.weight.data, self.window)
        return softmax(q @ k.mT * scale + bias, mask=pattern.dense(q.shape[2], k.shape[2]))[0]

    def added_to_scores(self, T, S, dtype=np.float64):
        return window_position_bias(self.weight.data, self.window)[0].astype(dtype)

    def describe(self):
        return Description("WindowPositionBias", gradient=(
            r"db_{h,n} = \Sigma_{i - j \in n} ds_{hij}",))
