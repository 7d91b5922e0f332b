"""The block without skip connections: sublayers in sequence, each of which replaces its input."""

from numformer.backend import dropout, dropout_backward
from numformer.description import Description
from numformer.functional.attention.masks import CAUSAL, EVERYWHERE
from numformer.layers.blocks.block import TransformerBlock


class PlainBlock(TransformerBlock):
    r"""Sublayers in sequence without skip connections: each replaces its input.

    .. math::

        \text{pre: } y = f(\mathrm{norm}(x)), \qquad \text{post: } y = \mathrm{norm}(f(x)), \qquad
        \bar{x} = J_{\mathrm{norm}}^\top J_f^\top\, \bar{y}

    A `TransformerBlock` adds :math:`\bar{y}` itself to that gradient. Here it is a product of
    Jacobians, so in a deep stack it vanishes or explodes, as in a recurrent network over time. For
    comparison; no published Transformer is built of it.

    Parameters
    ----------
    **branches : ResidualBranch
        As in `TransformerBlock`. Their sums are left out.

    Raises
    ------
    ValueError
        If there are two attentions of a kind.

    References
    ----------
    He et al. (2016), "Deep Residual Learning for Image Recognition", section 3.3, for the name;
    Dong, Cordonnier, Loukas (2021), "Attention Is Not All You Need", for attention.

    Examples
    --------
    >>> import numpy as np
    >>> from numformer.layers import FeedForward, LayerNorm, ResidualBranch
    >>> feedforward = FeedForward(8, 32, "gelu", np.random.default_rng(0))
    >>> feedforward.output.weight.data[:] = 0
    >>> branch, x = ResidualBranch(LayerNorm(8), feedforward), np.ones((1, 2, 8), np.float32)
    >>> TransformerBlock(feedforward=branch)(x).sum(), PlainBlock(feedforward=branch)(x).sum()
    (np.float32(16.0), np.float32(0.0))
    """

    def forward(self, x, memory=None, pattern=EVERYWHERE, memory_pattern=EVERYWHERE, rng=None):
        self._check_memory(memory)
        saved_branches = []
        for branch in self.branches.values():
            n, saved_input = branch.input_norm.forward(x)             # (B, T, C)
            b, saved_update = branch.update(n, memory, pattern, memory_pattern, rng)
            b, saved_dropout = dropout(b, branch.dropout, rng)
            x, saved_norm = branch.sum_norm.forward(b)
            saved_branches.append((saved_update, saved_dropout, saved_norm, saved_input))

        saved = (tuple(saved_branches),)
        return x, saved

    def backward(self, dy, saved, dauxiliary=0.0):
        (saved_branches,), dx = saved, dy
        for branch, (saved_update, saved_dropout, saved_norm, saved_input) in zip(
                reversed(self.branches.values()), reversed(saved_branches)):
            # x = sum_norm(dropout(b))
            db = dropout_backward(branch.sum_norm.backward(dx, saved_norm), saved_dropout)

            # b = update(n, memory)
            dn, *dmemory_of_branch = branch.update_backward(db, saved_update, dauxiliary)
            if branch.reads_memory:
                dmemory, = dmemory_of_branch

            # n = input_norm(x)
            dx = branch.input_norm.backward(dn, saved_input)
        return (dx, dmemory) if self.reads_memory else dx

    def step(self, x, cache=None, memory=None, pattern=CAUSAL, memory_pattern=EVERYWHERE):
        for branch in self.branches.values():
            b, cache = branch.update_step(
                branch.input_norm(x), cache, memory, pattern, memory_pattern)
            x = branch.sum_norm(b)
        return x, cache

    def describe(self):
        return Description("Plain block", " and ".join(self.branches),
                           (r"dx = J_1^\top J_2^\top dy",))

    def _joined(self, parts):
        return parts
