"""Local attention as a residual branch: whatever the pattern of the stack, a window narrows it."""

from numformer.functional.attention.masks import CAUSAL, AttentionPattern
from numformer.layers.blocks.residual import SelfAttentionBranch

# The kinds of layers, as published configs name them; a local one is of the second
FULL, SLIDING = LAYER_TYPES = "full_attention", "sliding_attention"


class LocalAttentionBranch(SelfAttentionBranch):
    r"""A `SelfAttentionBranch` in which a query attends to the positions near by alone.

    .. math:: y = x + f(\mathrm{norm}(x)), \qquad
              f \text{ attends from } p \text{ to } p - \text{left} \dots p + \text{right}

    The window is a rule more of the `AttentionPattern`, so the gradients are those of attention
    within the narrower pattern.

    Parameters
    ----------
    norm, sublayer, order, dropout, output_norm
        As in `SelfAttentionBranch`.
    window : tuple (left, right)
        Of `AttentionPattern`: a "sliding window of 4096", which counts the query, is (4095, 0).

    Raises
    ------
    ValueError
        If the window is not a pair of whole numbers or None, or the options of a branch do not fit.
    TypeError
        If `forward` gets a pattern that is no `AttentionPattern`.

    References
    ----------
    Beltagy et al. (2020), "Longformer", section 3.1; Jiang et al. (2023), "Mistral 7B", section 2.

    Examples
    --------
    >>> import numpy as np
    >>> from numformer.layers import LayerNorm, MultiHeadAttention
    >>> attention = MultiHeadAttention(8, 2, np.random.default_rng(0))
    >>> branch = LocalAttentionBranch(LayerNorm(8), attention, window=(1, 0))
    >>> x = np.random.default_rng(1).standard_normal((1, 5, 8), np.float32)
    >>> other = x.copy()
    >>> other[0, 0] = x[0, 1]                                         # another first vector
    >>> (branch(x, pattern=CAUSAL) != branch(other, pattern=CAUSAL)).any(axis=(0, 2))
    array([ True,  True, False, False, False])
    """

    def __init__(self, norm, sublayer, order="pre", dropout=0.0, output_norm=None, *, window):
        super().__init__(norm, sublayer, order, dropout, output_norm)
        self.window = CAUSAL.local(window).window                     # checked

    def narrowed(self, pattern):
        if not isinstance(pattern, AttentionPattern):
            raise TypeError("LocalAttentionBranch: pattern must be an AttentionPattern, but is "
                            f"{type(pattern).__name__}.")
        return pattern.local(self.window)

    def keys_seen(self, T):
        first, last = CAUSAL.local(self.window).intervals(T, T)
        return {self.sublayer: (float((last - first).mean()), True)}
