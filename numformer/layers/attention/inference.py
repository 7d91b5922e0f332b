"""What a trained attention also does: decode with a cache, and show its weights."""

from numformer.checks import check_array
from numformer.functional.attention.masks import CAUSAL, EVERYWHERE
from numformer.functional.head_projections import join_heads, split_heads
from numformer.layers.attention.kv_cache import KeyValueCache
from numformer.parameter import Layer


class InferenceAttention(Layer):
    """The base of `MultiHeadAttention`: steps with a cache, and a view of the weights.

    A decoder that generates a text calls `step` for self-attention, with a cache that grows. For
    cross-attention it calls `precompute_kv` once, and `cross_attend` at each step.
    """

    def step(self, x, cache=None, pattern=CAUSAL):
        """Continue a sequence: attend from new positions to all positions so far. Inference only.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
            Only the new positions.
        cache : KeyValueCache, optional
            What the last call returned; None at the start.
        pattern : AttentionPattern
            For T queries at the last of all S positions.

        Returns
        -------
        y : ndarray, shape (B, T, d_output)
        cache : KeyValueCache
            A new value; the old one stays as it was.
        """
        self._check(x, None)
        start = 0 if cache is None else len(cache)
        q, _ = self.project(x, self.query, self.query_norm, start)    # (B, H, T, D)
        k, _ = self.project(x, self.key, self.key_norm, start)        # (B, G, T, D)
        v = split_heads(self.value(x), self.d_value)                  # (B, G, T, D_V)
        cache = KeyValueCache(k, v) if cache is None else cache.append(k, v)
        return self._attend(q, cache, pattern), cache

    def precompute_kv(self, context):
        """Project the context of cross-attention once, for all steps that will attend to it.

        Parameters
        ----------
        context : ndarray, shape (B, S, d_context)

        Returns
        -------
        KeyValueCache
            For `cross_attend`.

        Raises
        ------
        ValueError, TypeError
            If the context does not fit, or the layer has positions: there is no distance between
            two sequences.
        """
        if self.positions.uses_distance:
            raise ValueError("MultiHeadAttention: a query that steps has no distance from the keys "
                             "of another sequence; build the layer of a cross-attention with "
                             "positions=None.")
        check_array("MultiHeadAttention", "context", context, "(B, S, C)",
                    C=len(self.key.weight.data))
        k, _ = self.project(context, self.key, self.key_norm)         # (B, G, S, D)
        return KeyValueCache(k, split_heads(self.value(context), self.d_value))

    def cross_attend(self, x, memory, pattern=EVERYWHERE):
        """Attend from new positions x to what `precompute_kv` returned. Inference only."""
        self._check(x, None)
        q, _ = self.project(x, self.query, self.query_norm)           # (B, H, T, D)
        return self._attend(q, memory, pattern)

    def _attend(self, q, cache, pattern):
        o, _ = self.attend(q, cache.k, cache.v, pattern)              # (B, H, T, D_V)
        return self.output(join_heads(o))                             # (B, T, d_output)

    def attention_weights(self, saved):
        """The weights (B, H, T, S) of the forward that saved, before dropout.

        The kernels never hold all of them at once, so the reference computes them here again.
        """
        *_, (q, k, _, pattern) = saved
        return self.positions.weights(q, k, pattern, self.scale, self.softcap)

    def queries_and_keys(self, saved):
        """q (B, H, T, D), k (B, G, S, D) and the pattern of the forward that saved.

        Their products are the scores, before the scale and what positions add.
        """
        *_, (q, k, _, pattern) = saved
        return q, k, pattern

    def values(self, saved):
        """v (B, G, S, D_V) of the forward that saved."""
        *_, (_, _, v, _) = saved
        return v
