"""Multi-head attention whose weights do not depend on the tokens: even ones, or by distance."""

import numpy as np

from numformer.checks import check_array, check_choice, check_divides, check_generator
from numformer.description import Description
from numformer.functional.attention.fixed_weights import (
    distance_weights, distance_weights_backward, uniform_weights)
from numformer.functional.attention.masks import CAUSAL, EVERYWHERE
from numformer.functional.head_projections import join_heads, split_heads
from numformer.functional.positions.alibi import alibi_slopes
from numformer.layers.attention.kv_cache import KeyValueCache
from numformer.layers.linear import Linear
from numformer.parameter import Layer, Parameter


class FixedWeightAttention(Layer):
    r"""Mix the values of all positions with weights that are the same for every text.

    .. math:: y = \mathrm{concat}(o_1, \dots, o_H)\, W_O, \qquad o_h = p_h\, x W_V^h

    p is `uniform_weights`, or `distance_weights` with a trained slope for each head. What is left
    out of `MultiHeadAttention` are the queries and keys: this layer has no parameters for them.
    It shows what they are for.

    Parameters
    ----------
    d_model : int
        C.
    n_heads : int
        H, which divides C. With even weights all heads have the same ones.
    rng : numpy.random.Generator or None
    weights : "even" or "distance"
    bias : bool
        Whether the two linear maps have biases.
    std, output_std : float, optional
        Of the initial weights of both maps.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If heads do not divide the width, the kind of weights is unknown, or an input does not fit.

    Notes
    -----
    A masked vector must still be finite, because 0 * NaN is NaN. There is no dropout of weights.

    References
    ----------
    Zhang, Xiong, Su (2018), "Accelerating Neural Transformer via an Average Attention Network",
    for even weights. Raganato, Scherrer, Tiedemann (2020), "Fixed Encoder
    Self-Attention Patterns in Transformer-Based Machine Translation", for weights by position.

    Examples
    --------
    >>> layer = FixedWeightAttention(8, 2, np.random.default_rng(0), "distance")
    >>> [name for name, _ in layer.named_parameters()]
    ['value.weight', 'value.bias', 'output.weight', 'output.bias', 'slopes']
    >>> layer(np.ones((1, 5, 8), np.float32), pattern=CAUSAL).shape
    (1, 5, 8)
    """

    def __init__(self, d_model, n_heads, rng, weights="even", bias=True, std=None, output_std=None,
                 dtype=np.float32):
        check_divides("FixedWeightAttention", "d_model", d_model, "n_heads", n_heads)
        check_choice("FixedWeightAttention", "weights", weights, ["even", "distance"])
        self.value = Linear(d_model, d_model, rng, bias, std, dtype)
        self.output = Linear(d_model, d_model, rng, bias, output_std, dtype)
        self.slopes = None
        if weights == "distance":
            self.slopes = Parameter(alibi_slopes(n_heads).astype(dtype))
        self.weights, self.n_heads, self.d_value = weights, n_heads, d_model // n_heads

    def forward(self, x, pattern=EVERYWHERE, rng=None):
        """Mix the vectors of `x`.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
        pattern : AttentionPattern
        rng : numpy.random.Generator, optional
            Not used: there is no dropout here.

        Returns
        -------
        y : ndarray, shape (B, T, C)
        saved : tuple
        """
        self._check(x)
        check_generator("FixedWeightAttention", rng)
        B, T, _ = x.shape
        p, saved_weights = self._weights(pattern, B, T, T)            # (H, T, S) or (B, H, T, S)
        v, saved_value = self.value.forward(x)
        v = split_heads(v, self.d_value)                              # (B, H, S, D)
        y, saved_output = self.output.forward(join_heads(p @ v))      # (B, T, C)

        saved = (p, v, saved_weights, saved_value, saved_output)
        return y, saved

    def backward(self, dy, saved):
        """Gradient of `x`; that of the slopes is added."""
        p, v, saved_weights, saved_value, saved_output = saved

        # y = output(join_heads(p @ v))
        do = split_heads(self.output.backward(dy, saved_output), self.d_value)
        dv = p.mT @ do                                                # (B, H, S, D)

        # p = distance_weights(slopes, mask)
        if self.slopes is not None:
            dp = do @ v.mT                                            # (B, H, T, S)
            dp = dp if p.ndim == 4 else dp.sum(axis=0)
            self.slopes.grad += distance_weights_backward(dp, saved_weights)

        # v = split_heads(value(x))
        return self.value.backward(join_heads(dv), saved_value)

    def attention_weights(self, saved):
        """The weights (B, H, T, S) of the forward that saved."""
        p, v, *_ = saved
        return np.broadcast_to(p, (len(v), self.n_heads, *p.shape[-2:]))

    def step(self, x, cache=None, pattern=CAUSAL):
        """Continue a sequence; as in `MultiHeadAttention`. The keys of the cache have width 0."""
        self._check(x)
        v = split_heads(self.value(x), self.d_value)                  # (B, H, T, D)
        k = v[..., :0]
        cache = KeyValueCache(k, v) if cache is None else cache.append(k, v)
        p, _ = self._weights(pattern, len(x), x.shape[1], len(cache))
        return self.output(join_heads(p @ cache.v)), cache

    def _check(self, x):
        check_array("FixedWeightAttention", "x", x, "(B, T, C)", C=len(self.value.weight.data))

    def _weights(self, pattern, B, T, S):
        """(p, saved) for T queries at the last of S positions."""
        pattern.check(B, self.n_heads, T, S)
        mask = pattern.dense(T, S)
        if self.slopes is not None:
            return distance_weights(self.slopes.data, mask)
        mask = np.broadcast_to(mask, (*mask.shape[:-3], self.n_heads, T, S))
        return uniform_weights(mask, self.value.weight.data.real.dtype), ()

    def describe(self):
        kind = {"even": "equal weights", "distance": "weights by distance"}[self.weights]
        return Description("Multi-head attention", f"{self.n_heads} heads of {self.d_value}, "
                           f"{kind}, not trained", (r"dv = p^\top do", r"do = dy\,W_o^\top",
                                                    r"dx = dv\,W_v^\top"))
