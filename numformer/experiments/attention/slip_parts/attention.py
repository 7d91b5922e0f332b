"""Attention written out in steps, and each misprint of it as a class that replaces one step.

The misprints are those of CONVENTIONS, section Equations; a deck is named by its letter.
"""

import numpy as np

from numformer.functional.attention.masks import CAUSAL
from numformer.functional.softmax import softmax, softmax_backward
from numformer.layers.positions.in_attention import AttentionPositions


class WrittenAttention(AttentionPositions):
    r"""Attention as it should be, in four steps: scores, mask, weights, mean of the values.

    .. math:: z = q k^\top / \sqrt D, \qquad p = \mathrm{softmax}_j(z), \qquad o = p v

    A misprint is a subclass that overrides one step, and its backward.
    """

    uses_distance = caps_scores = False

    def scores(self, q, k):
        """The scores (B, H, T, S)."""
        return q @ k.mT * q.shape[-1] ** -0.5

    def scores_backward(self, dz, q, k):
        """Gradients of q and k."""
        # z = q @ k.mT * scale
        scale = q.shape[-1] ** -0.5
        return dz @ k * scale, dz.mT @ q * scale

    def mask(self, T, S):
        """True where a query may attend to a key, (T, S)."""
        return CAUSAL.dense(T, S)

    def normalize(self, z, mask):
        """The weights p (B, H, T, S), and what their backward needs."""
        return softmax(z, mask=mask)

    def normalize_backward(self, dp, saved):
        """The gradient of the scores."""
        # p = softmax(z)
        return softmax_backward(dp, saved)

    def values(self, v):
        """The values that are averaged."""
        return v

    def values_backward(self, dv):
        """The gradient of v."""
        return dv

    def steps(self, q, k, v):
        """All arrays in the order of computation, by name, and what the backward needs."""
        z = self.scores(q, k)                                         # (B, H, T, S)
        p, saved_weights = self.normalize(z, self.mask(q.shape[2], k.shape[2]))
        values = self.values(v)                                       # (B, H, S, D)
        o = p @ values                                                # (B, H, T, D)
        return dict(scores=z, weights=p, values=values, output=o), saved_weights

    def attend(self, q, k, v, pattern, scale, dropout=0.0, seed=None, softcap=None):
        """Attention with the mask and the scale of this class, whatever those of the layer are."""
        found, saved_weights = self.steps(q, k, v)

        saved = (q, k, found["weights"], found["values"], saved_weights)
        return found["output"], saved

    def attend_backward(self, do, saved):
        q, k, p, values, saved_weights = saved

        # o = p @ values(v)
        dp = do @ values.mT                                           # (B, H, T, S)
        dv = self.values_backward(p.mT @ do)

        # p = normalize(z)
        dz = self.normalize_backward(dp, saved_weights)

        # z = scores(q, k)
        dq, dk = self.scores_backward(dz, q, k)
        return dq, dk, dv


class WithoutRoot(WrittenAttention):
    """E: Q Kᵀ. C: the root outside the exponential, where it cancels; see `RootOutside`."""

    def scores(self, q, k):
        return q @ k.mT

    def scores_backward(self, dz, q, k):
        # z = q @ k.mT
        return dz @ k, dz.mT @ q


class RootOutside(WithoutRoot):
    """C, as it is printed: exp(q k) / sqrt(D), over the sum of the same."""

    def normalize(self, z, mask):
        scale = z.shape[-1] ** -0.5                                   # any number cancels
        z = np.where(mask, z, -np.inf)
        e = np.exp(z - z.real.max(axis=-1, keepdims=True)) * scale
        p = e / e.sum(axis=-1, keepdims=True)
        return p, (p, -1, mask)


class NoSoftmax(WrittenAttention):
    """D, eq. 6: (Q Kᵀ / sqrt(D)) V."""

    def normalize(self, z, mask):
        return np.where(mask, z, z.dtype.type(0)), mask

    def normalize_backward(self, dp, saved):
        # p = where(mask, z, 0)
        return np.where(saved, dp, dp.dtype.type(0))


class SoftmaxOverQueries(WrittenAttention):
    """A: dim = 1 of H x N x N scores. The weights of a key sum to 1, over the queries."""

    def normalize(self, z, mask):
        return softmax(z, axis=-2, mask=mask)


class OwnKey(WrittenAttention):
    """D, eq. 4 and 5: α_i from q_i and k_i. All queries have the same weights, up to the mask."""

    def scores(self, q, k):
        return (q * k).sum(axis=-1)[:, :, None] * q.shape[-1] ** -0.5          # (B, H, 1, S)

    def scores_backward(self, dz, q, k):
        # z_j = q_j . k_j * scale
        dz = dz.mT * q.shape[-1] ** -0.5                              # (B, H, S, 1)
        return dz * k, dz * q

    def normalize(self, z, mask):
        return softmax(np.broadcast_to(z, (*z.shape[:2], *mask.shape)), mask=mask)

    def normalize_backward(self, dp, saved):
        # p = softmax(z, the same for all queries)
        return softmax_backward(dp, saved).sum(axis=2, keepdims=True)


class SharedValues(WrittenAttention):
    """E: Z_h = V softmax(...), with one V for all heads; here that of the first."""

    def values(self, v):
        return np.broadcast_to(v[:, :1], v.shape)

    def values_backward(self, dv):
        # values_h = v_1
        return np.concatenate([dv.sum(axis=1, keepdims=True), np.zeros_like(dv[:, 1:])], axis=1)


class Exchanged(WrittenAttention):
    """E, encoder: V softmax(Qᵀ K / sqrt(p)) in columns: output i has the key i and all queries."""

    def scores(self, q, k):
        return super().scores(k, q)

    def scores_backward(self, dz, q, k):
        dk, dq = super().scores_backward(dz, k, q)
        return dq, dk


class TransposedMask(Exchanged):
    """E, masked attention: the same with M, 0 where j ≤ i. Output i averages the values j ≥ i."""

    def mask(self, T, S):
        return CAUSAL.dense(S, T).T


class NoMask(WrittenAttention):
    """B: `is_causal` is passed on and never used. A: what the mask is for."""

    def mask(self, T, S):
        return np.ones((T, S), bool)


class LastTokenAlone(WrittenAttention):
    """D, eq. 1: p(x_t given x_(t-1)) for an n-gram. Every token attends to itself alone."""

    def mask(self, T, S):
        return np.eye(T, S, dtype=bool)
