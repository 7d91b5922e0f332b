"""Attention before the Transformer: one head, several score functions, the context as values."""

import numpy as np

from numformer import functional as F
from numformer.checks import check_array, check_choice, check_whole
from numformer.description import Description
from numformer.functional.attention.masks import EVERYWHERE, AttentionPattern
from numformer.functional.softmax import softmax, softmax_backward
from numformer.layers.dropout import Identity
from numformer.layers.linear import Linear
from numformer.parameter import Layer, normal

SCORES = {name: (getattr(F, f"{name}_scores"), getattr(F, f"{name}_scores_backward"))
          for name in ("additive", "dot", "general", "scaled_dot")}


class ScoreAttention(Layer):
    r"""Every query gets the average of the context, weighted by one of several score functions.

    .. math:: y_i = \sum_j p_{ij} c_j, \qquad p_i = \mathrm{softmax}_j(\mathrm{score}(x_i, c_j))

    where j runs over the vectors of the context that the pattern allows. A query that may attend to
    nothing gets 0.

    A recurrent decoder has one query per time step and always the same context. What depends on the
    context alone is computed once:

    .. code-block:: python

        memory, saved_memory = attention.prepare(context)
        y, saved = attention.attend(x, memory, pattern)               # at every time step
        dx, dkeys, dvalues = attention.attend_backward(dy, saved)     # at every time step
        dcontext = attention.prepare_backward(sum_of_dkeys, sum_of_dvalues, saved_memory)

    Parameters
    ----------
    score : "additive", "dot", "general" or "scaled_dot"
        `additive_scores` of queries and keys that are two learned maps without biases;
        `general_scores`; or `dot_scores` and `scaled_dot_scores`, without parameters.
    d_query, d_context : int
        Widths of `x` and of the context; for "dot" and "scaled_dot" they must be equal.
    rng : numpy.random.Generator or None
    d_hidden : int, optional
        A, the width of the additive score's hidden layer; `d_query` unless given.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If the score is unknown, widths do not fit it, or an input does not fit.

    References
    ----------
    Bahdanau, Cho, Bengio (2015), section 3.1, eq. 5 and 6 (additive). Luong, Pham, Manning (2015),
    section 3.1 (dot, general).

    Examples
    --------
    >>> layer = ScoreAttention("additive", 6, 8, np.random.default_rng(0), d_hidden=5)
    >>> layer
    ScoreAttention(score='additive', query=Linear, key=Linear, weight=(5,))
    >>> layer(np.ones((2, 3, 6), np.float32), np.ones((2, 4, 8), np.float32)).shape
    (2, 3, 8)
    >>> ScoreAttention("dot", 6, 8, np.random.default_rng(0))  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ValueError: ScoreAttention: score='dot' needs d_query and d_context to be the same, but they
                are 6 and 8; use score='general'.
    """

    def __init__(self, score, d_query, d_context, rng, d_hidden=None, dtype=np.float32):
        check_choice("ScoreAttention", "score", score, list(SCORES))
        for name, size in (("d_query", d_query), ("d_context", d_context),
                           ("d_hidden", 1 if d_hidden is None else d_hidden)):
            check_whole("ScoreAttention", name, size)
        if score in ("dot", "scaled_dot") and d_query != d_context:
            raise ValueError(
                f"ScoreAttention: score={score!r} needs d_query and d_context to be the same, but "
                f"they are {d_query} and {d_context}; use score='general'.")
        if score != "additive" and d_hidden is not None:
            raise ValueError(f"ScoreAttention: d_hidden={d_hidden} is for score='additive' alone; "
                             f"leave it out with score={score!r}.")
        d_hidden = d_query if d_hidden is None else d_hidden
        self.score = score
        self.query = self.key = Identity()
        self.weight = None
        if score == "additive":
            self.query = Linear(d_query, d_hidden, rng, bias=False, dtype=dtype)      # W
            self.key = Linear(d_context, d_hidden, rng, bias=False, dtype=dtype)      # U
            self.weight = normal(rng, (d_hidden,), d_hidden ** -0.5, dtype)           # v
        elif score == "general":
            self.weight = normal(rng, (d_query, d_context), d_query ** -0.5, dtype)
        self._widths = d_query, d_context

    def forward(self, x, context, pattern=EVERYWHERE):
        """Attend from `x` to `context`.

        Parameters
        ----------
        x : ndarray, shape (B, T, d_query)
        context : ndarray, shape (B, S, d_context)
        pattern : AttentionPattern

        Returns
        -------
        y : ndarray, shape (B, T, d_context)
        saved : tuple
        """
        memory, saved_memory = self.prepare(context)
        y, saved_attend = self.attend(x, memory, pattern)

        saved = (saved_memory, saved_attend)
        return y, saved

    def backward(self, dy, saved):
        """Gradients of `x` and of `context`."""
        saved_memory, saved_attend = saved

        # y = attend(x, memory)
        dx, dkeys, dvalues = self.attend_backward(dy, saved_attend)

        # memory = prepare(context)
        return dx, self.prepare_backward(dkeys, dvalues, saved_memory)

    def prepare(self, context):
        """Compute what depends on the context alone; opaque, for `attend`.

        A vector that holds NaN or Inf is set to 0 and marked. It must reach only the queries that
        may attend to it, but a masked weight of 0 times NaN is NaN.
        """
        check_array("ScoreAttention", "context", context, "(B, S, C)", C=self._widths[1])
        finite = np.isfinite(context).all(axis=-1)                    # (B, S)
        values = np.where(finite[..., None], context, 0)              # (B, S, C)
        keys, saved = self.key.forward(values)

        memory = (keys, values, finite)
        return memory, saved

    def prepare_backward(self, dkeys, dvalues, saved):
        """The gradient of the context, from the sums of dkeys and of dvalues over all queries."""
        # keys = key(context);  values = context
        return self.key.backward(dkeys, saved) + dvalues

    def attend(self, x, memory, pattern=EVERYWHERE):
        """Attend from `x` (B, T, d_query) to a prepared context."""
        keys, values, finite = memory
        B, S = finite.shape
        T = check_array("ScoreAttention", "x", x, "(B, T, C)", values.dtype, B=B,
                        C=self._widths[0])["T"]
        if not isinstance(pattern, AttentionPattern):
            raise TypeError("ScoreAttention: pattern must be an AttentionPattern, but is "
                            f"{type(pattern).__name__}; use AttentionPattern(mask=mask) for a mask "
                            "of bool.")
        if not T or not S:
            raise ValueError(f"ScoreAttention: no axis may be empty, but there are T={T} queries "
                             f"and S={S} keys.")
        pattern.check(B, 1, T, S)
        mask = pattern.dense(T, S)                                    # (T, S) or (B, 1, T, S)
        q, saved_query = self.query.forward(x)
        scores, saved_scores = SCORES[self.score][0](q, keys, *self._weight())    # (B, T, S)
        scores = np.where(finite[:, None], scores, np.nan)
        p, saved_softmax = softmax(scores, mask=mask if mask.ndim == 2 else mask[:, 0])
        y = p @ values                                                # (B, T, C)

        saved = (p, values, saved_query, saved_scores, saved_softmax)
        return y, saved

    def attend_backward(self, dy, saved):
        """Gradients of `x`, and of keys and values; their sums go into `prepare_backward`."""
        p, values, saved_query, saved_scores, saved_softmax = saved

        # y = p @ values
        dvalues = p.mT @ dy
        dp = dy @ values.mT                                           # (B, T, S)

        # p = softmax(scores, mask)
        dscores = softmax_backward(dp, saved_softmax)

        # scores = score(q, keys, weight)
        dq, dkeys, *dweight = SCORES[self.score][1](dscores, saved_scores)
        if dweight:
            self.weight.grad += dweight[0]

        # q = query(x)
        return self.query.backward(dq, saved_query), dkeys, dvalues

    def attention_weights(self, saved):
        """The weights (B, T, S) of the forward that saved."""
        _, (p, *_) = saved
        return p

    def _weight(self):
        return () if self.weight is None else (self.weight.data,)

    def describe(self):
        words = {"general": "bilinear", "dot": "dot-product", "scaled_dot": "scaled dot-product"}
        return Description("Attention", f"{words.get(self.score, self.score)} scores",
                           (r"dv = p^\top dy", r"dp = dy\,v^\top", r"ds = p\,(dp - \Sigma\,p\,dp)"))
