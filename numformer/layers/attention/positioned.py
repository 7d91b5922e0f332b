"""Attention of DETR: positions are added to queries and keys in every layer, but not to values."""

from numformer.backend import add
from numformer.checks import check_array, check_generator
from numformer.functional.attention.masks import EVERYWHERE
from numformer.functional.dropout_hash import dropout_seed
from numformer.functional.head_projections import join_heads, split_heads
from numformer.layers.attention.multi_head import MultiHeadAttention


class PositionedAttention(MultiHeadAttention):
    r"""Multi-head attention from x to c in which queries and keys know where they are.

    .. math:: q = (x + p) W_Q, \qquad k = (c + r) W_K, \qquad v = c\, W_V

    Values are content alone: what is found does not depend on where it was. For self-attention,
    give x and p twice; the gradients of the two add up.

    Parameters
    ----------
    d_model, n_heads, rng, **options
        As in `MultiHeadAttention`.

    References
    ----------
    Carion et al. (2020), "End-to-End Object Detection with Transformers", appendix A.3, figure 10.

    Examples
    --------
    >>> import numpy as np
    >>> layer = PositionedAttention(8, 2, np.random.default_rng(0))
    >>> x, p = np.ones((1, 3, 8), np.float32), np.ones((3, 8), np.float32)
    >>> c, r = np.ones((1, 5, 8), np.float32), np.ones((5, 8), np.float32)
    >>> y, saved = layer.forward(x, c, p, r)
    >>> [gradient.shape for gradient in layer.backward(y, saved)]
    [(1, 3, 8), (1, 5, 8), (3, 8), (5, 8)]
    """

    reads_of = "of x + positions"                             # queries and keys, in a diagram

    def forward(self, x, context, query_positions, key_positions, pattern=EVERYWHERE, rng=None):
        """Attend from `x` to `context`.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
        context : ndarray, shape (B, S, C)
        query_positions : ndarray, shape (T, C)
            p, the same for all examples.
        key_positions : ndarray, shape (S, C)
            r.
        pattern : AttentionPattern
        rng : numpy.random.Generator, optional
            For dropout.

        Returns
        -------
        y : ndarray, shape (B, T, d_output)
        saved : tuple
        """
        owner = "PositionedAttention"
        check_generator(owner, rng)
        dtype = self.query.weight.data.dtype
        for name, vectors in (("x", x), ("context", context)):
            check_array(owner, name, vectors, "(B, T, C)", dtype)
        self._check(x, context)
        for name, p, vectors in (("query_positions", query_positions, x),
                                 ("key_positions", key_positions, context)):
            check_array(owner, name, p, "(T, C)", dtype, T=vectors.shape[1], C=vectors.shape[2])
        q, saved_query = self.project(                                # (B, H, T, D)
            x + query_positions, self.query, self.query_norm)
        k, saved_key = self.project(                                  # (B, G, S, D)
            context + key_positions, self.key, self.key_norm)
        v, saved_value = self.value.forward(context)
        v = split_heads(v, self.d_value)                              # (B, G, S, D_V)
        seed = None if rng is None else dropout_seed(rng)
        o, saved_attention = self.attend(q, k, v, pattern, seed)      # (B, H, T, D_V)
        y, saved_output = self.output.forward(join_heads(o))          # (B, T, d_output)

        saved = (saved_query, saved_key, saved_value, saved_attention, saved_output,
                 (q, k, v, pattern))
        return y, saved

    def backward(self, dy, saved):
        """Gradients of `x`, `context`, `query_positions` and `key_positions`."""
        saved_query, saved_key, saved_value, saved_attention, saved_output, _ = saved

        # y = output(join_heads(o)), with o = attend(q, k, v)
        do = split_heads(self.output.backward(dy, saved_output), self.d_value)
        dq, dk, dv = self.attend_backward(do, saved_attention)

        # q = project(x + query_positions);  k = project(context + key_positions)
        dx = self.project_backward(dq, saved_query, self.query, self.query_norm)
        dkeys = self.project_backward(dk, saved_key, self.key, self.key_norm)

        # v = split_heads(value(context))
        dcontext = add(dkeys, self.value.backward(join_heads(dv), saved_value))
        return dx, dcontext, dx.sum(axis=0), dkeys.sum(axis=0)

    def describe(self):
        about = super().describe()
        return about._replace(
            sizes=f"{self.n_heads} heads of {self.d_head}, positions added to q and k",
            gradient=(*about.gradient[:-1], r"dp_q = dq\,W_q^\top", r"dx = dp_q + \ldots"))
