"""What stands on BERT's encoder: one vector for the sequence, and a guess at every hidden token."""

import numpy as np

from numformer.backend import gelu, gelu_backward
from numformer.checks import check_array
from numformer.layers.linear import Linear, Unembedding
from numformer.layers.normalization import LayerNorm
from numformer.layers.pooling import Pooling
from numformer.parameter import Layer, constant


class ClassPooler(Layer):
    r"""One vector for a sequence, (B, T, C) to (B, C): that of the class token, which stands first, once more mapped and bounded.

    .. math:: y = \tanh(x_0 W + b)

    Parameters
    ----------
    d_model : int
        C.
    rng : numpy.random.Generator or None
    std : float
        Of the initial weight.
    dtype : float32 or float64

    Raises
    ------
    ValueError, TypeError
        If `x` has not three axes, the last of them C, or has no position.

    References
    ----------
    Devlin et al. (2019), "BERT", section 3, where it is the vector C; the map is in the published code alone.

    Examples
    --------
    >>> ClassPooler(4, np.random.default_rng(0))(np.ones((2, 3, 4), np.float32)).shape
    (2, 4)
    """

    def __init__(self, d_model, rng, std=0.02, dtype=np.float32):
        self.pooling = Pooling("class")
        self.linear = Linear(d_model, d_model, rng, std=std, dtype=dtype)

    def forward(self, x):
        first, saved_pooling = self.pooling.forward(x)                # (B, C)
        h, saved_linear = self.linear.forward(first)
        y = np.tanh(h)

        saved = (saved_pooling, saved_linear, y)
        return y, saved

    def backward(self, dy, saved):
        saved_pooling, saved_linear, y = saved

        # y = tanh(h)
        dh = dy * (1 - y * y)

        # h = linear(x[:, 0])
        return self.pooling.backward(self.linear.backward(dh, saved_linear), saved_pooling)


class MaskedTokenHead(Layer):
    r"""A score for every token of the vocabulary, (..., C) to (..., V), from vectors that stand where tokens were hidden.

    .. math:: y = \mathrm{norm}(\mathrm{gelu}(x W + b))\, E^\top + c

    Parameters
    ----------
    table : Parameter, shape (V, C)
        E, the token embedding's weight: the head is tied to it and adds a bias for each token.
    rng : numpy.random.Generator or None
    std : float
        Of the initial W.
    epsilon : float
        Of the norm.

    Raises
    ------
    ValueError, TypeError
        If `table` is not a matrix Parameter, or `x` does not end in C.

    References
    ----------
    Devlin et al. (2019), "BERT", section 3.1, task 1; map and norm are in the published code alone.

    Examples
    --------
    >>> from numformer.layers import Embedding
    >>> rng = np.random.default_rng(0)
    >>> MaskedTokenHead(Embedding(7, 4, rng).weight, rng)(np.ones((2, 4), np.float32)).shape
    (2, 7)
    """

    def __init__(self, table, rng, std=0.02, epsilon=1e-5):
        self.unembedding = Unembedding(table)
        vocab_size, d_model = table.data.shape
        self.linear = Linear(d_model, d_model, rng, std=std, dtype=table.data.dtype)
        self.norm = LayerNorm(d_model, epsilon=epsilon, dtype=table.data.dtype)
        self.bias = constant(0, (vocab_size,), table.data.dtype)

    def forward(self, x):
        check_array("MaskedTokenHead", "x", x, "(..., C)", C=self.unembedding.weight.data.shape[1])
        h, saved_linear = self.linear.forward(x)                      # (..., C)
        h, saved_gelu = gelu(h)
        h, saved_norm = self.norm.forward(h)
        y, saved_unembedding = self.unembedding.forward(h)            # (..., V)

        saved = (saved_linear, saved_gelu, saved_norm, saved_unembedding)
        return y + self.bias.data, saved

    def backward(self, dy, saved):
        saved_linear, saved_gelu, saved_norm, saved_unembedding = saved

        # y = unembedding(h) + bias
        self.bias.grad += dy.sum(axis=tuple(range(dy.ndim - 1)))
        dh = self.unembedding.backward(dy, saved_unembedding)

        # h = norm(gelu(linear(x)))
        dh = gelu_backward(self.norm.backward(dh, saved_norm), saved_gelu)
        return self.linear.backward(dh, saved_linear)
