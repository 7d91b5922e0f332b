"""The block whose branches run in parallel: each reads the input of the block."""

from numformer.backend import add, residual_dropout, residual_dropout_backward
from numformer.description import Description, Residual, Row
from numformer.functional.attention.masks import CAUSAL, EVERYWHERE
from numformer.layers.blocks.block import TransformerBlock


class ParallelBlock(TransformerBlock):
    r"""Residual branches in parallel: each has the input x, and their outputs are added to it.

    .. math:: y = x + f(\mathrm{norm}_1(x)) + g(\mathrm{norm}_2(x))

    GPT-NeoX has a norm for each branch. GPT-J and PaLM share one: pass the same object to both.

    Parameters
    ----------
    **branches : ResidualBranch
        As in `TransformerBlock`, but not of order "post": no branch has a sum of its own to norm.

    Raises
    ------
    ValueError
        If a branch is of order "post", or there are two attentions of a kind.

    References
    ----------
    Wang and Komatsuzaki (2021), "GPT-J-6B"; Black et al. (2022), "GPT-NeoX-20B", section 2.1;
    Chowdhery et al. (2022), "PaLM", section 2.

    Examples
    --------
    >>> import numpy as np
    >>> from numformer.layers import (
    ...     FeedForward, LayerNorm, MultiHeadAttention, ResidualBranch, SelfAttentionBranch)
    >>> rng, norm = np.random.default_rng(0), LayerNorm(8)
    >>> block = ParallelBlock(
    ...     attention=SelfAttentionBranch(norm, MultiHeadAttention(8, 2, rng)),
    ...     feedforward=ResidualBranch(norm, FeedForward(8, 32, "gelu", rng)))
    >>> block(np.ones((1, 5, 8), np.float32)).shape
    (1, 5, 8)
    """

    def __init__(self, **branches):
        post = [name for name, branch in branches.items() if branch.order == "post"]
        if post:
            raise ValueError(f"ParallelBlock: {post[0]} is of order='post', whose norm would be "
                             "that of the whole sum; use order='pre' or order='sandwich'.")
        super().__init__(**branches)

    def forward(self, x, memory=None, pattern=EVERYWHERE, memory_pattern=EVERYWHERE, rng=None):
        self._check_memory(memory)
        y, saved_branches = x, []
        for branch in self.branches.values():
            n, saved_input = branch.input_norm.forward(x)
            b, saved_update = branch.update(n, memory, pattern, memory_pattern, rng)
            y, saved_sum = residual_dropout(y, b, branch.dropout, rng)         # (B, T, C)
            saved_branches.append((saved_update, saved_sum, saved_input))

        saved = (tuple(saved_branches),)
        return y, saved

    def backward(self, dy, saved, dauxiliary=0.0):
        (saved_branches,), dx = saved, dy
        for branch, (saved_update, saved_sum, saved_input) in zip(
                reversed(self.branches.values()), reversed(saved_branches)):
            # y = y + dropout(b)
            dy, db = residual_dropout_backward(dy, saved_sum)

            # b = update(n, memory)
            dn, *dmemory_of_branch = branch.update_backward(db, saved_update, dauxiliary)
            if branch.reads_memory:
                dmemory, = dmemory_of_branch

            # n = input_norm(x)
            dx = add(dx, branch.input_norm.backward(dn, saved_input))
        return (dx, dmemory) if self.reads_memory else dx

    def step(self, x, cache=None, memory=None, pattern=CAUSAL, memory_pattern=EVERYWHERE):
        y = x
        for branch in self.branches.values():
            n = branch.input_norm(x)
            b, cache = branch.update_step(n, cache, memory, pattern, memory_pattern)
            y = y + b
        return y, cache

    def describe(self):
        return Description("Parallel block", " and ".join(self.branches),
                           (r"dx = dy + J_1^\top dy + J_2^\top dy",))

    def describe_block(self, reader, shape, attention):
        return Residual((Row(tuple(
            branch.describe_parts(reader, branch.sublayer_box(reader, shape, attention))
            for branch in self.branches.values())),)),
