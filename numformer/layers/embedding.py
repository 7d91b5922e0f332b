"""Embedding: the table of token vectors."""

import numpy as np

from numformer.backend import embedding, embedding_backward
from numformer.checks import check_number, check_whole
from numformer.description import Description, by
from numformer.parameter import Layer, normal


class Embedding(Layer):
    r"""A vector for every token, ids (...) to (..., C): `embedding` and its table.

    .. math:: y_n = s\, W_{\mathrm{ids}_n}

    Parameters
    ----------
    vocab_size, d_model : int
        V and C.
    rng : numpy.random.Generator or None
    std : float
        Of the initial table.
    scale : float
        s; the 2017 Transformer multiplies by sqrt(C) (section 3.4), because its table is also the
        output head.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If ids are not integers in 0 .. V-1, or there are none.

    Examples
    --------
    >>> Embedding(65, 8, np.random.default_rng(0))(np.array([[1, 2, 3]])).shape
    (1, 3, 8)
    """

    def __init__(self, vocab_size, d_model, rng, std=0.02, scale=1.0, dtype=np.float32):
        check_whole("Embedding", "vocab_size", vocab_size)
        check_whole("Embedding", "d_model", d_model)
        check_number("Embedding", "scale", scale)
        self.weight = normal(rng, (vocab_size, d_model), std, dtype)
        self.scale = float(scale)

    def forward(self, ids):
        vectors, saved = embedding(ids, self.weight.data)
        return (vectors if self.scale == 1 else vectors * self.scale), saved

    def backward(self, dy, saved):
        if not self.weight.trained:
            return None

        # y = vectors * scale
        dvectors = dy * self.scale

        # vectors = embedding(ids, weight)
        self.weight.grad += embedding_backward(dvectors, saved)
        return None                                                   # ids have no gradient

    def describe(self):
        return Description("Token embedding", by(*self.weight.data.shape),
                           (r"dE_i = \Sigma_{t:\,id_t = i} dy_t",))
