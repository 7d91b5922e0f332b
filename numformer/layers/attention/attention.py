"""The attention layer itself: queries are given, keys and values are made of the data."""

import numpy as np

from numformer.backend import (
    add, scaled_dot_product_attention, scaled_dot_product_attention_backward)
from numformer.checks import check_array
from numformer.description import Description
from numformer.functional import attention_weights
from numformer.functional.attention.masks import EVERYWHERE
from numformer.layers.linear import Linear
from numformer.parameter import Layer

WEIGHTS = (r"dv = a^\top dy", r"da = dy\,v^\top", r"de = a\,(da - \Sigma\,a\,da)",
           r"dq = de\,k / \sqrt{D_Q}", r"dk = de^\top q / \sqrt{D_Q}")


class Attention(Layer):
    r"""Every query gets a mean of the values, weighted by how well their keys match it.

    .. math:: K = X W_K, \quad V = X W_V, \quad E = Q K^\top / \sqrt{D_Q}, \quad
              A = \mathrm{softmax}(E), \quad Y = A V

    The queries come from elsewhere: they may be the states of a decoder, or learned. So there is no
    :math:`W_Q`; and with a single head there is no :math:`W_O`. `SelfAttention` makes the queries
    of X, too; `MultiHeadAttention` has several heads. The backward, with :math:`\bar{x}` for the
    gradient with respect to x:

    .. math::

        \bar{V} = A^\top \bar{Y}, \qquad \bar{A} = \bar{Y} V^\top, \qquad
        \bar{E} = A \odot \left( \bar{A} - \mathrm{rowsum}(A \odot \bar{A}) \right), \qquad
        \bar{Q} = \bar{E} K / \sqrt{D_Q}, \qquad \bar{K} = \bar{E}^\top Q / \sqrt{D_Q}

    .. math:: \bar{X} = \bar{K} W_K^\top + \bar{V} W_V^\top, \qquad
              \bar{W}_K = X^\top \bar{K}, \qquad \bar{W}_V = X^\top \bar{V}

    Parameters
    ----------
    d_query, d_in, d_out : int
        The widths of queries (and keys), of the data X, and of the values and the output.
    rng : numpy.random.Generator or None
    std : float, optional
        Of the initial weights; 1 / sqrt(d_in) unless given.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If a width is not a whole number above 0, or an input does not fit.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", eq. 1, of which keys and values are
    projections.

    Examples
    --------
    >>> layer = Attention(d_query=4, d_in=6, d_out=3, rng=np.random.default_rng(0))
    >>> layer
    Attention(key=Linear, value=Linear)
    >>> q, x = np.ones((1, 2, 4), np.float32), np.ones((1, 5, 6), np.float32)
    >>> layer(q, x).shape                             # one output for each query
    (1, 2, 3)
    """

    def __init__(self, d_query, d_in, d_out, rng, std=None, dtype=np.float32):
        self.key = Linear(d_in, d_query, rng, bias=False, std=std, dtype=dtype)      # W_K
        self.value = Linear(d_in, d_out, rng, bias=False, std=std, dtype=dtype)      # W_V

    def forward(self, q, x, pattern=EVERYWHERE):
        """Attend from the queries to the data.

        Parameters
        ----------
        q : ndarray, shape (B, T, d_query)
        x : ndarray, shape (B, S, d_in)
        pattern : AttentionPattern
            Which vectors of x a query may attend to: all by default.

        Returns
        -------
        y : ndarray, shape (B, T, d_out)
        saved : tuple
        """
        self._check(q, x)
        k, saved_key = self.key.forward(x)                            # (B, S, d_query)
        v, saved_value = self.value.forward(x)                        # (B, S, d_out)
        y, saved_attention = attend(q, k, v, pattern)                 # (B, T, d_out)

        saved = (saved_key, saved_value, saved_attention, (q, k, pattern))
        return y, saved

    def backward(self, dy, saved):
        """Gradients of `q` and of `x`."""
        saved_key, saved_value, saved_attention, _ = saved

        # y = attend(q, k, v)
        dq, dk, dv = attend_backward(dy, saved_attention)

        # k = key(x);  v = value(x)
        dx = add(self.key.backward(dk, saved_key), self.value.backward(dv, saved_value))
        return dq, dx

    def attention_weights(self, saved):
        """A (B, T, S) of the forward that saved: computed again, as kernels do not keep it."""
        *_, (q, k, pattern) = saved
        return attention_weights(q[:, None], k[:, None], pattern)[:, 0]

    def describe(self):
        d_query, d_out = (part.weight.data.shape[1] for part in (self.key, self.value))
        return Description(
            "Attention", f"queries of {d_query:,} to {d_out:,}",
            (*WEIGHTS, r"dx = dk\,W_K^\top + dv\,W_V^\top"),
            keys=d_query + d_out, cache=d_query + d_out)

    def _check(self, q, x):
        d_in, d_query = self.key.weight.data.shape
        dtype = self.key.weight.data.dtype
        B = check_array("Attention", "q", q, "(B, T, D)", dtype, D=d_query)["B"]
        check_array("Attention", "x", x, "(B, S, C)", dtype, B=B, C=d_in)


def attend(q, k, v, pattern):
    """y = softmax(q k^T / sqrt(D)) v of one head, and what its backward needs.

    Parameters
    ----------
    q, k, v : ndarray, shape (B, T, D), (B, S, D) and (B, S, D_V)
    pattern : AttentionPattern

    Returns
    -------
    y : ndarray, shape (B, T, D_V)
    saved : tuple
    """
    y, saved = scaled_dot_product_attention(                          # (B, 1, T, D_V): H = 1
        q[:, None], k[:, None], v[:, None], pattern)
    return y[:, 0], saved


def attend_backward(dy, saved):
    """Gradients of q, k and v."""
    dq, dk, dv = scaled_dot_product_attention_backward(dy[:, None], saved)
    return dq[:, 0], dk[:, 0], dv[:, 0]
