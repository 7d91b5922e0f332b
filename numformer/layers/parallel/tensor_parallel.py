r"""Tensor parallelism: one feed-forward or attention layer, cut into N parts that compute together.

Cut the first matrix by columns and the second by rows:

.. math:: f\big( x\, [A_1 \cdots A_N] \big) \begin{bmatrix} B_1 \\ \vdots \\ B_N \end{bmatrix}
          = [f(x A_1) \cdots f(x A_N)] \begin{bmatrix} B_1 \\ \vdots \\ B_N \end{bmatrix}
          = \sum_{p=1}^{N} f(x A_p)\, B_p

The nonlinearity f acts on every column alone, so part p needs no other part's columns: only the
sum at the end is made together. Attention has the same form: f is then the attention of each head,
which needs no other head, and A_p are the columns of W_Q, W_K and W_V of the heads of part p.

Backward, every part gets the whole gradient of y, and the input was used by all parts:

.. math:: \bar{x} = \sum_{p=1}^{N} \bar{x}_p, \qquad
          \bar{x}_p = \big[ \bar{y} B_p^\top \odot f'(x A_p) \big] A_p^\top, \qquad
          \bar{B}_p = f(x A_p)^\top \bar{y}, \qquad
          \bar{A}_p = x^\top \big[ \bar{y} B_p^\top \odot f'(x A_p) \big]

So a block, which has one of each, makes two sums forward and two backward, each of the size of x:
(B, T, C). Everything between two sums, norms and residual connections too, is computed by every
part alike.

References
----------
Shoeybi et al. (2019), "Megatron-LM: Training Multi-Billion Parameter Language Models Using Model
Parallelism", section 3.
"""

import copy

import numpy as np

from numformer.checks import check_divides, check_whole
from numformer.layers.attention.multi_head import UNCHANGED, MultiHeadAttention
from numformer.layers.feedforward import FeedForward, GatedFeedForward
from numformer.layers.linear import Linear, are_plain
from numformer.parameter import Layer, Parameter

OWNER = "TensorParallel"


class TensorParallel(Layer):
    """Part p of N of a layer: the same layer with a share of the hidden units, or of the heads.

    Parameters
    ----------
    layer : FeedForward, GatedFeedForward or MultiHeadAttention
        The whole layer, from which the part copies its columns and rows. Attention without
        positions or with rotary ones, and without norms of queries and keys.
    part, parts : int
        p, counted from 0, and N, which divides the hidden units, or the heads and key-value heads.
    total : callable
        The sum of an array (B, T, C) over all parts, which every part gets. On the ranks of MPI:
        ``comm.allreduce``, which is short, or ``comm.Allreduce``, which copies less.

    Raises
    ------
    TypeError, ValueError
        If it is another layer, or N does not divide it.

    Examples
    --------
    >>> import numpy as np
    >>> layer = FeedForward(4, 8, "gelu", np.random.default_rng(0))
    >>> parts = [TensorParallel(layer, p, 2, total=lambda y: y) for p in range(2)]
    >>> x = np.ones((1, 3, 4), np.float32)
    >>> np.allclose(parts[0](x) + parts[1](x), layer(x), atol=1e-6)
    True
    """

    def __init__(self, layer, part, parts, total):
        check_whole(OWNER, "parts", parts)
        check_whole(OWNER, "part", part, least=0)
        if part >= parts:
            raise ValueError(f"{OWNER}: part={part} must be less than parts={parts}; parts are "
                             "counted from 0.")
        if isinstance(layer, (FeedForward, GatedFeedForward)):
            self.share = _share_of_units(layer, part, parts)
        elif isinstance(layer, MultiHeadAttention):
            self.share = _share_of_heads(layer, part, parts)
        else:
            raise TypeError(f"{OWNER}: layer must be a FeedForward, a GatedFeedForward or a "
                            f"MultiHeadAttention, but is a {type(layer).__name__}.")
        self.total = total

    def forward(self, x, **options):
        partial, saved = self.share.forward(x, **options)              # (B, T, C)
        return self.total(partial), saved

    def backward(self, dy, saved):
        # y = share_0(x) + ... + share_{N-1}(x)
        return self.total(self.share.backward(dy, saved))


def _share_of_units(layer, part, parts):
    """A feed-forward with F / N of the F hidden units."""
    check_divides(OWNER, "the hidden width", layer.hidden.weight.data.shape[1], "parts", parts)
    share = copy.copy(layer)
    for name in ("gate", "hidden"):
        if hasattr(layer, name):
            setattr(share, name, _columns(getattr(layer, name), part, parts))
    share.output = _rows(layer.output, part, parts)
    return share


def _share_of_heads(layer, part, parts):
    """An attention with H / N of the H heads, and G / N of the G key-value heads."""
    check_divides(OWNER, "n_heads", layer.n_heads, "parts", parts)
    check_divides(OWNER, "n_kv_heads", layer.n_kv_heads, "parts", parts)
    if layer.positions.slopes is not None or layer.positions.parameters():
        raise TypeError(f"{OWNER}: {type(layer.positions).__name__} differs from head to head; use "
                        "rotary positions, or none.")
    if layer.query_norm is not UNCHANGED:
        raise TypeError(f"{OWNER}: norms of queries and keys have weights that all heads share; "
                        "use query_key_norm=False.")
    share = copy.copy(layer)
    share.n_heads, share.n_kv_heads = layer.n_heads // parts, layer.n_kv_heads // parts
    for name in ("query", "key", "value"):
        setattr(share, name, _columns(getattr(layer, name), part, parts))
    share.output = _rows(layer.output, part, parts)
    return share


def _check_map(linear):
    if not are_plain(linear):
        raise TypeError(f"{OWNER}: a {type(linear).__name__} may compute anything, so it cannot be "
                        "divided; use a Linear.")


def _columns(linear, part, parts):
    """A_p: the p-th of N equal groups of a Linear's columns, with their biases."""
    _check_map(linear)
    share = object.__new__(Linear)
    share.weight = Parameter(np.split(linear.weight.data, parts, axis=1)[part].copy())
    share.bias = None if linear.bias is None else Parameter(
        np.split(linear.bias.data, parts)[part].copy())
    return share


def _rows(linear, part, parts):
    """B_p: the p-th of N equal groups of a Linear's rows. Part 0 has the bias."""
    _check_map(linear)
    share = object.__new__(Linear)
    share.weight = Parameter(np.split(linear.weight.data, parts)[part].copy())
    share.bias = (Parameter(linear.bias.data.copy()) if linear.bias is not None and part == 0
                  else None)
    return share
