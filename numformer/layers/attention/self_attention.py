"""Self-attention with one head: one query, one key and one value for each vector."""

import numpy as np

from numformer.checks import check_array
from numformer.functional.attention.masks import EVERYWHERE
from numformer.layers.attention.attention import WEIGHTS, Attention, attend, attend_backward
from numformer.layers.linear import Linear


class SelfAttention(Attention):
    r"""`Attention` whose queries are made of the data, too: (B, T, D_in) to (B, T, D_out).

    .. math:: Q = X W_Q, \quad K = X W_K, \quad V = X W_V, \qquad
              Y = \mathrm{softmax}(Q K^\top / \sqrt{D_Q})\, V

    Each output is a mixture of all inputs. `MultiHeadAttention` runs H of these at once, and W_O
    maps what they return to one vector; here W_O does not exist. The backward is that of
    `Attention`, and X has one more gradient:

    .. math:: \bar{W}_Q = X^\top \bar{Q}, \qquad
              \bar{X} = \bar{Q} W_Q^\top + \bar{K} W_K^\top + \bar{V} W_V^\top

    Parameters
    ----------
    d_in, d_out : int
        D_in, the width of X; D_out, that of the values and the output.
    rng : numpy.random.Generator or None
    d_query : int, optional
        D_Q, the width of queries and keys; D_out unless given.
    std, dtype
        As in `Attention`.

    Raises
    ------
    ValueError, TypeError
        If a width is not a whole number above 0, or an input does not fit.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 3.2.2, one head.

    Examples
    --------
    >>> from numformer.functional import CAUSAL
    >>> layer = SelfAttention(6, 4, np.random.default_rng(0))
    >>> layer
    SelfAttention(query=Linear, key=Linear, value=Linear)
    >>> layer(np.ones((1, 5, 6), np.float32), pattern=CAUSAL).shape   # masked self-attention
    (1, 5, 4)
    """

    def __init__(self, d_in, d_out, rng, d_query=None, std=None, dtype=np.float32):
        d_query = d_out if d_query is None else d_query
        self.query = Linear(d_in, d_query, rng, bias=False, std=std, dtype=dtype)    # W_Q
        super().__init__(d_query, d_in, d_out, rng, std, dtype)

    def forward(self, x, pattern=EVERYWHERE):
        """Attend from `x` to `x`.

        Parameters
        ----------
        x : ndarray, shape (B, T, d_in)
        pattern : AttentionPattern
            Which vectors a query may attend to: all by default, the earlier ones with `CAUSAL`.

        Returns
        -------
        y : ndarray, shape (B, T, d_out)
        saved : tuple
        """
        self._check(x)
        q, saved_query = self.query.forward(x)                        # (B, T, d_query)
        k, saved_key = self.key.forward(x)                            # (B, T, d_query)
        v, saved_value = self.value.forward(x)                        # (B, T, d_out)
        y, saved_attention = attend(q, k, v, pattern)                 # (B, T, d_out)

        saved = (saved_query, saved_key, saved_value, saved_attention, (q, k, pattern))
        return y, saved

    def backward(self, dy, saved):
        """Gradient of `x`."""
        saved_query, saved_key, saved_value, saved_attention, _ = saved

        # y = attend(q, k, v)
        dq, dk, dv = attend_backward(dy, saved_attention)

        # q = query(x);  k = key(x);  v = value(x)
        return (self.query.backward(dq, saved_query) + self.key.backward(dk, saved_key)
                + self.value.backward(dv, saved_value))

    def describe(self):
        d_in, d_out = self.value.weight.data.shape
        return super().describe()._replace(
            name="Self-attention", sizes=f"{d_in:,} to {d_out:,}",
            gradient=(*WEIGHTS, r"dx = dq\,W_Q^\top + dk\,W_K^\top + dv\,W_V^\top"))

    def _check(self, x):
        weight = self.query.weight.data
        check_array("SelfAttention", "x", x, "(B, T, C)", weight.dtype, C=len(weight))
