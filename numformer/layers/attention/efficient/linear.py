"""Linear attention as a layer: parallel in training, recurrent in generation."""

from dataclasses import dataclass

import numpy as np

from numformer.functional.attention.efficient.linear import (
    linear_attention, linear_attention_backward, linear_attention_step)
from numformer.functional.attention.masks import CAUSAL
from numformer.functional.head_projections import join_heads
from numformer.layers.attention.efficient.projected import ProjectedAttention


class LinearAttention(ProjectedAttention):
    r"""Multi-head `linear_attention`: products of positive features in place of the softmax.

    .. math:: o_i = \frac{\phi(q_i)^\top \sum_j \phi(k_j)\, v_j^\top}
                         {\phi(q_i)^\top \sum_j \phi(k_j)}

    With a causal pattern the sums are prefix sums, and `step` continues a text with a state of
    fixed size, as a recurrent network does.

    Parameters
    ----------
    d_model, n_heads : int
        C and H, which divides C.
    rng : numpy.random.Generator or None
    bias : bool
        Whether the four linear maps have biases.
    std, output_std : float, optional
        Of the initial weights of the input projections and of the output projection.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If heads do not divide the width, an input does not fit, or the pattern has other rules
        than `causal`.

    References
    ----------
    Katharopoulos et al. (2020), "Transformers are RNNs", sections 3.2 to 3.4.

    Examples
    --------
    >>> layer = LinearAttention(8, 2, np.random.default_rng(0))
    >>> x = np.random.default_rng(1).standard_normal((1, 5, 8), np.float32)
    >>> y, state = layer.step(x[:, :4])
    >>> last, state = layer.step(x[:, 4:], state)
    >>> state.sums.shape, bool(abs(last - layer(x, pattern=CAUSAL)[:, 4:]).max() < 1e-6)
    ((1, 2, 4, 6), True)
    """

    kind_in_words = "linear in T"
    gradient_equations = (            # of o = n / m, n = phi(q) S, m = phi(q) z
        r"dn = do / m", r"dm = -\Sigma\,dn\,o", r"d\phi(q) = dn\,S^\top + dm\,z^\top",
        r"dS = \phi(q)^\top dn", r"dv = \phi(k)\,dS")

    def attend(self, q, k, v, causal):
        """`linear_attention` of the heads."""
        return linear_attention(q, k, v, causal)

    def attend_backward(self, do, saved):
        """The gradients of the heads."""
        return linear_attention_backward(do, saved)

    def step(self, x, cache=None, pattern=CAUSAL):
        """Continue a sequence by new positions. Inference only.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
            Only the new positions.
        cache : LinearAttentionState, optional
            What the last call returned; None at the start.
        pattern : AttentionPattern
            `CAUSAL`.

        Returns
        -------
        y : ndarray, shape (B, T, C)
        cache : LinearAttentionState
            A new value; the old one stays as it was.
        """
        self.check(x, pattern)
        if not pattern.causal:
            raise ValueError("LinearAttention: step continues a text, but the pattern has "
                             "causal=False; use CAUSAL, or forward.")
        q, k, v = self.heads(x)
        o, sums = np.empty_like(q), None if cache is None else cache.sums
        for t in range(x.shape[1]):
            o[:, :, t:t + 1], sums = linear_attention_step(
                *(part[:, :, t:t + 1] for part in (q, k, v)), sums)
        before = 0 if cache is None else len(cache)
        return self.output(join_heads(o)), LinearAttentionState(sums, before + x.shape[1])


@dataclass(frozen=True)
class LinearAttentionState:
    """The sums over all positions so far; their size does not depend on how many there were."""

    sums: np.ndarray                                                  # (B, H, D, D + 2)
    length: int

    def __len__(self):
        return self.length

    @property
    def k(self):
        """The sums: a decoder reads from it for how many texts a cache is."""
        return self.sums

    def rows(self, order):
        """The state of the sequences with indices `order`, an int array; indices may repeat."""
        return LinearAttentionState(self.sums[order], self.length)
