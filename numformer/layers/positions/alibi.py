"""ALiBi: attention scores fall in proportion to distance."""

import numpy as np

from numformer.description import Description
from numformer.functional import alibi, alibi_backward, alibi_slopes
from numformer.layers.positions.in_attention import AttentionPositions


class ALiBi(AttentionPositions):
    """Lower scores (B, H, T, S) in proportion to distance, with a slope for each head: `alibi`.

    There are no parameters, and sequences may have any length.

    Parameters
    ----------
    n_heads : int
        H.

    References
    ----------
    Press, Smith, Lewis (2022), "Train Short, Test Long: Attention with Linear Biases Enables Input
    Length Extrapolation", section 3.

    Examples
    --------
    >>> ALiBi(1)(np.zeros((1, 1, 1, 3)))
    array([[[[-0.0078125 , -0.00390625,  0.        ]]]])
    """

    scheme = "alibi"
    in_words = "ALiBi added to scores"
    score_term = "ALiBi"

    def __init__(self, n_heads):
        self.n_heads, self.slopes = n_heads, alibi_slopes(n_heads)

    def forward(self, scores):
        return alibi(scores, self.slopes)

    def backward(self, dy, saved):
        return alibi_backward(dy, saved)

    def added_to_scores(self, T, S, dtype=np.float64):
        return self(np.zeros((1, self.n_heads, T, S), dtype))[0]

    def describe(self):
        return Description("ALiBi", gradient=(r"dx = dy",))
