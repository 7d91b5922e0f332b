"""The residual branch: a sublayer, its norm and its dropout, added to the residual stream."""

from numformer.backend import add
from numformer.checks import check_choice, check_number
from numformer.description import Description
from numformer.functional.attention.masks import CAUSAL, EVERYWHERE
from numformer.layers.blocks.add_and_norm import add_and_norm, add_and_norm_backward
from numformer.layers.dropout import Identity
from numformer.parameter import Layer

ORDERS = ["pre", "post", "sandwich"]
NO_NORM = Identity()                                          # where an order has no norm


class ResidualBranch(Layer):
    r"""Add to x what a sublayer f computes from it; the order says where the norm goes.

    .. math::

        \text{pre: } y = x + f(\mathrm{norm}(x)), \qquad
        \text{post: } y = \mathrm{norm}(x + f(x)), \qquad
        \text{sandwich: } y = x + \mathrm{norm}_2(f(\mathrm{norm}(x)))

    With pre-norm the gradient flows along the sums to the first block without passing through a
    norm. With post-norm it passes through every norm, and training needs a warm-up. The sandwich
    also bounds what a branch adds.

    This class serves any sublayer ``f(x)``, such as a feed-forward, a convolution or a mixture of
    experts. `SelfAttentionBranch` and `CrossAttentionBranch` also pass patterns to attention.

    Parameters
    ----------
    norm : Layer
        A `LayerNorm` or `RMSNorm` of width C.
    sublayer : Layer
        f, (B, T, C) to (B, T, C).
    order : "pre", "post" or "sandwich"
    dropout : float in [0, 1)
        Dropout rate of the branch's output, before it is added.
    output_norm : Layer, optional
        norm_2, for order="sandwich" only.

    Raises
    ------
    ValueError
        If the order is unknown, the rate is out of range, or `output_norm` does not go with the
        order.

    References
    ----------
    Post-norm: Vaswani et al. (2017), "Attention Is All You Need", section 3.1. Pre-norm:
    Baevski and Auli (2019), "Adaptive Input Representations for Neural Language Modeling", section
    4.1; Xiong et al. (2020), "On Layer Normalization in the Transformer Architecture", figure 1.
    Sandwich: Ding et al. (2021), "CogView", section 2.4.

    Examples
    --------
    >>> import numpy as np
    >>> from numformer.layers import FeedForward, LayerNorm
    >>> feedforward = FeedForward(8, 32, "gelu", np.random.default_rng(0))
    >>> branch = ResidualBranch(LayerNorm(8), feedforward, order="pre")
    >>> y, saved = branch.forward(np.ones((1, 5, 8), np.float32))
    >>> branch.backward(np.ones_like(y), saved).shape
    (1, 5, 8)
    """

    reads_memory = False

    def __init__(self, norm, sublayer, order="pre", dropout=0.0, output_norm=None):
        owner = type(self).__name__
        check_choice(owner, "order", order, ORDERS)
        check_number(owner, "dropout", dropout, least=0, below=1)
        if (order == "sandwich") != (output_norm is not None):
            raise ValueError(f"{owner}: order={order!r} came with output_norm={output_norm!r}; "
                             "a sandwich needs a second norm, the other orders have none.")
        self.input_norm = NO_NORM if order == "post" else norm
        self.sublayer = sublayer
        self.output_norm = output_norm if order == "sandwich" else NO_NORM
        self.sum_norm = norm if order == "post" else NO_NORM
        self.order, self.dropout = order, float(dropout)

    @property
    def norm(self):
        """The norm that every order has."""
        return self.sum_norm if self.order == "post" else self.input_norm

    def forward(self, x, memory=None, pattern=EVERYWHERE, memory_pattern=EVERYWHERE, rng=None):
        """Run the branch and add its result to `x`.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
            The residual stream.
        memory : ndarray, shape (B, S, d_context), optional
            The output of an encoder, to which a `CrossAttentionBranch` attends.
        pattern : AttentionPattern
            Which positions of `x` self-attention may attend to.
        memory_pattern : AttentionPattern
            Which positions of the memory cross-attention may attend to.
        rng : numpy.random.Generator, optional
            For dropout and the capacity of experts; None at inference.

        Returns
        -------
        y : ndarray, shape (B, T, C)
        saved : tuple
        """
        n, saved_input = self.input_norm.forward(x)                   # (B, T, C)
        b, saved_update = self.update(n, memory, pattern, memory_pattern, rng)
        (_, y), saved_sum = add_and_norm(self.sum_norm, x, b, self.dropout, rng)

        saved = (saved_update, saved_sum, saved_input)
        return y, saved

    def backward(self, dy, saved, dauxiliary=0.0):
        """Gradient of `x`, or of `x` and the memory where the sublayer attends to it.

        `dauxiliary` is the gradient of `auxiliary_loss`.
        """
        saved_update, saved_sum, saved_input = saved

        # y = sum_norm(x + dropout(b))
        dx, db = add_and_norm_backward(self.sum_norm, None, dy, saved_sum)

        # b = update(n, memory)
        dn, *dmemory = self.update_backward(db, saved_update, dauxiliary)

        # n = input_norm(x)
        dx = add(dx, self.input_norm.backward(dn, saved_input))
        return (dx, *dmemory) if self.reads_memory else dx

    def update(self, n, memory=None, pattern=EVERYWHERE, memory_pattern=EVERYWHERE, rng=None):
        """What the branch adds to the residual stream, output_norm(f(n)), for n = input_norm(x)."""
        b, saved_sublayer = self._sublayer(n, memory, pattern, memory_pattern, rng)
        b, saved_norm = self.output_norm.forward(b)                   # the shape of n

        saved = (saved_sublayer, saved_norm)
        return b, saved

    def update_backward(self, db, saved, dauxiliary=0.0):
        """Gradients of the inputs of `update`, in a tuple: (dn,) or (dn, dmemory)."""
        saved_sublayer, saved_norm = saved

        # b = output_norm(sublayer(n, memory))
        db = self.output_norm.backward(db, saved_norm)
        return self._sublayer_backward(db, saved_sublayer, dauxiliary)

    def auxiliary_loss(self, saved):
        """The loss that the sublayer adds to the task's, such as the load balance of experts.

        `saved` is that of `forward`. The loss is 0 for a sublayer that has none.
        """
        (saved_sublayer, _), *_ = saved
        if hasattr(self.sublayer, "auxiliary_loss"):
            return self.sublayer.auxiliary_loss(saved_sublayer)
        return 0.0

    def step(self, x, cache=None, memory=None, pattern=CAUSAL, memory_pattern=EVERYWHERE):
        """Run the branch on the new positions only. Inference only.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
            The new positions.
        cache : KeyValueCache or None
            Keys and values of the earlier positions; None at the start. Self-attention returns a
            longer one, the other branches return it as it came.
        memory : KeyValueCache, optional
            Keys and values of the memory, from ``precompute_kv`` of the cross-attention.
        pattern, memory_pattern : AttentionPattern

        Returns
        -------
        y : ndarray, shape (B, T, C)
        cache : KeyValueCache
        """
        b, cache = self.update_step(self.input_norm(x), cache, memory, pattern, memory_pattern)
        return self.sum_norm(x + b), cache

    def update_step(self, n, cache, memory, pattern, memory_pattern):
        """`update` of the new positions only, and the cache; see `step`."""
        b, cache = self._sublayer_step(n, cache, memory, pattern, memory_pattern)
        return self.output_norm(b), cache

    # How the sublayer is called: a subclass overrides these three, as the two classes below do.

    def _sublayer(self, x, memory, pattern, memory_pattern, rng):
        if hasattr(self.sublayer, "auxiliary_loss"):                  # experts drop tokens with rng
            return self.sublayer.forward(x, rng)
        return self.sublayer.forward(x)

    def _sublayer_backward(self, dy, saved, dauxiliary):
        if hasattr(self.sublayer, "auxiliary_loss"):
            return self.sublayer.backward(dy, saved, dauxiliary),
        return self.sublayer.backward(dy, saved),                     # (dx,)

    def _sublayer_step(self, x, cache, memory, pattern, memory_pattern):
        return self.sublayer(x), cache

    def describe(self):
        return Description("Residual branch", f"{self.order}-norm", {
            "pre": (r"dx = dy + J_{\mathrm{norm}}^\top J_f^\top dy",),
            "post": (r"ds = J_{\mathrm{norm}}^\top dy", r"dx = ds + J_f^\top ds"),
            "sandwich": (r"db = J_{\mathrm{norm}_2}^\top dy",
                         r"dx = dy + J_{\mathrm{norm}}^\top J_f^\top db")}[self.order])

    def describe_parts(self, reader, box):
        """The norms and the sublayer: `box` is that of the sublayer, see `sublayer_box`."""
        return (*reader.boxes(box.shape, self.input_norm), *reader.parts(box, self.sublayer),
                *reader.boxes(box.shape, self.output_norm))

    def sublayer_box(self, reader, shape, attention):
        """The box of the sublayer; `attention` is what attention to the input is called."""
        return reader.box(shape, self.sublayer)


class SelfAttentionBranch(ResidualBranch):
    """A residual branch whose sublayer attends from x to x, within `pattern`.

    Parameters
    ----------
    norm, order, dropout, output_norm
        As in `ResidualBranch`.
    sublayer : MultiHeadAttention

    Examples
    --------
    >>> import numpy as np
    >>> from numformer.layers import LayerNorm, MultiHeadAttention
    >>> attention = MultiHeadAttention(8, 2, np.random.default_rng(0))
    >>> branch = SelfAttentionBranch(LayerNorm(8), attention)
    >>> branch(np.ones((1, 5, 8), np.float32), pattern=CAUSAL).shape
    (1, 5, 8)
    """

    def narrowed(self, pattern):
        """The pattern of this branch in a stack with a pattern; a subclass may narrow it."""
        return pattern

    def _sublayer(self, x, memory, pattern, memory_pattern, rng):
        return self.sublayer.forward(x, pattern=self.narrowed(pattern), rng=rng)

    def _sublayer_step(self, x, cache, memory, pattern, memory_pattern):
        return self.sublayer.step(x, cache, self.narrowed(pattern))

    def sublayer_box(self, reader, shape, attention):
        box = reader.box(shape, self.sublayer, name=attention)
        left, right = self.narrowed(EVERYWHERE).window or (None, None)
        if left is None:
            return box
        width = left + 1 if attention.startswith("Masked") else left + right + 1
        return box._replace(detail=f"{box.detail}, window of {width:,}")


class CrossAttentionBranch(ResidualBranch):
    """A residual branch whose sublayer attends from x to a memory, within `memory_pattern`.

    Parameters
    ----------
    norm, order, dropout, output_norm
        As in `ResidualBranch`. The norm is that of x: an encoder with pre-norm ends with a norm of
        its own.
    sublayer : MultiHeadAttention
        Without positions: between two sequences there is no distance.

    Raises
    ------
    TypeError
        If `forward` gets no memory.

    Examples
    --------
    >>> import numpy as np
    >>> from numformer.layers import LayerNorm, MultiHeadAttention
    >>> attention = MultiHeadAttention(8, 2, np.random.default_rng(0))
    >>> branch = CrossAttentionBranch(LayerNorm(8), attention)
    >>> y, saved = branch.forward(np.ones((1, 3, 8), np.float32), np.ones((1, 5, 8), np.float32))
    >>> dx, dmemory = branch.backward(np.ones_like(y), saved)
    >>> dx.shape, dmemory.shape
    ((1, 3, 8), (1, 5, 8))
    """

    reads_memory = True

    def _sublayer(self, x, memory, pattern, memory_pattern, rng):
        if memory is None:
            raise TypeError("CrossAttentionBranch: memory is missing; give what the encoder made, "
                            "an array of shape (B, S, C).")
        return self.sublayer.forward(x, memory, memory_pattern, rng)

    def _sublayer_backward(self, dy, saved, dauxiliary):
        return self.sublayer.backward(dy, saved)                      # (dx, dmemory)

    def _sublayer_step(self, x, cache, memory, pattern, memory_pattern):
        return self.sublayer.cross_attend(x, memory, memory_pattern), cache

    def sublayer_box(self, reader, shape, attention):
        return reader.box(shape, self.sublayer, name="Cross-attention", reads_memory=True)

    def keys_seen(self, T):
        return {self.sublayer: (T, True)}
