"""The Transformer block: residual branches in sequence.

Read `minimal.block` first: one block of two branches, without classes. `branched` has what a block
needs besides its forward and backward, `parallel` the block whose branches run in parallel.
"""

from numformer.backend import add
from numformer.description import Description
from numformer.functional.attention.masks import EVERYWHERE
from numformer.layers.blocks.add_and_norm import add_and_norm, add_and_norm_backward
from numformer.layers.blocks.branched import BranchedBlock
from numformer.layers.blocks.residual import NO_NORM


class TransformerBlock(BranchedBlock):
    r"""Residual branches in sequence: the output of each is the input of the next.

    With norms before the sublayers (pre-norm) these are the two lines of GPT-2:

    .. math:: h = x + \mathrm{attention}(\mathrm{norm}_1(x)), \qquad
              y = h + \mathrm{feedforward}(\mathrm{norm}_2(h))

    In the backward the gradient goes along each sum unchanged, and through the sublayer and its
    norm as well:

    .. math:: dh = dy + J_2^\top dy, \qquad dx = dh + J_1^\top dh

    with the Jacobians of attention(norm_1(x)) and of feedforward(norm_2(h)). So a gradient reaches
    the first of many blocks without passing through a sublayer. The first example writes both
    directions out.

    A decoder's block is ``TransformerBlock(attention=..., feedforward=...)``. In an
    encoder-decoder, ``cross_attention=...`` comes between the two. `ResidualBranch` has the other
    orders of norm and sum.

    Parameters
    ----------
    **branches : ResidualBranch
        In the order in which they run; at most one `SelfAttentionBranch` and one
        `CrossAttentionBranch`, since `step` has one cache for each. Their sublayers and norms are
        attributes of the block: ``block.norm1`` and ``block.attention``, and so on.

    Raises
    ------
    ValueError
        If there are two attentions of a kind.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 3.1 and figure 1.

    Examples
    --------
    >>> import numpy as np
    >>> from numformer.functional import CAUSAL
    >>> from numformer.layers import (
    ...     FeedForward, LayerNorm, MultiHeadAttention, ResidualBranch, SelfAttentionBranch)
    >>> rng = np.random.default_rng(0)
    >>> block = TransformerBlock(
    ...     attention=SelfAttentionBranch(LayerNorm(8), MultiHeadAttention(8, 2, rng)),
    ...     feedforward=ResidualBranch(LayerNorm(8), FeedForward(8, 32, "gelu", rng)))
    >>> x, dy = rng.standard_normal((2, 1, 5, 8), np.float32)
    >>> y, saved = block.forward(x, pattern=CAUSAL)
    >>> dx = block.backward(dy, saved)

    The same, line by line:

    >>> n1, saved_norm1 = block.norm1.forward(x)                      # (B, T, C)
    >>> a, saved_attention = block.attention.forward(n1, pattern=CAUSAL)
    >>> h = x + a
    >>> n2, saved_norm2 = block.norm2.forward(h)
    >>> f, saved_feedforward = block.feedforward.forward(n2)
    >>> np.allclose(y, h + f, atol=1e-6)
    True
    >>> dn2 = block.feedforward.backward(dy, saved_feedforward)       # y = h + f
    >>> dh = dy + block.norm2.backward(dn2, saved_norm2)
    >>> dn1 = block.attention.backward(dh, saved_attention)           # h = x + a
    >>> np.allclose(dx, dh + block.norm1.backward(dn1, saved_norm1), atol=1e-5)
    True
    """

    def forward(self, x, memory=None, pattern=EVERYWHERE, memory_pattern=EVERYWHERE, rng=None):
        """Run the branches; parameters as in `ResidualBranch.forward`.

        Returns
        -------
        y : ndarray, shape of x, (B, T, C)
        saved : tuple

        Raises
        ------
        TypeError
            If there is a memory but no branch that reads it, or the other way round.
        """
        self._check_memory(memory)
        branches, patterns = list(self.branches.values()), (pattern, memory_pattern)
        saved_branches, saved_norm = [], None

        if self.norm_first:
            first_norm, *next_norms = self._input_norms(branches)
            n, saved_norm = first_norm.forward(x)                     # n = norm_1(x)
            for branch, next_norm in zip(branches, next_norms):
                b, saved_update = branch.update(n, memory, *patterns, rng)    # the sublayer, of n
                # x = x + b;  n = norm(x)
                (x, n), saved_sum = add_and_norm(next_norm, x, b, branch.dropout, rng)
                saved_branches.append((saved_update, saved_sum))
        else:
            for branch in branches:                                   # x = norm(x + sublayer(x))
                x, saved_branch = branch.forward(x, memory, *patterns, rng)
                saved_branches.append(saved_branch)

        saved = (saved_branches, saved_norm)
        return x, saved

    def backward(self, dy, saved, dauxiliary=0.0):
        """Gradient of `x`, or of `x` and the memory; `dauxiliary` is that of `auxiliary_loss`."""
        branches, (saved_branches, saved_norm), dmemory = list(self.branches.values()), saved, ()

        if self.norm_first:
            first_norm, *next_norms = self._input_norms(branches)
            dx, dn = None, dy                                         # y is the last n
            for branch, next_norm, (saved_update, saved_sum) in zip(
                    reversed(branches), reversed(next_norms), reversed(saved_branches)):
                # x = x + b;  n = norm(x)
                dx, db = add_and_norm_backward(next_norm, dx, dn, saved_sum)

                # b = update(n, memory)
                dn, *more = branch.update_backward(db, saved_update, dauxiliary)
                dmemory = more if branch.reads_memory else dmemory

            # n = norm_1(x)
            dx = add(dx, first_norm.backward(dn, saved_norm))
        else:
            dx = dy
            for branch, saved_branch in zip(reversed(branches), reversed(saved_branches)):
                # x = norm(x + sublayer(x))
                dx = branch.backward(dx, saved_branch, dauxiliary)
                if branch.reads_memory:
                    dx, *dmemory = dx
        return (dx, *dmemory) if self.reads_memory else dx

    @property
    def norm_first(self):
        """Whether no branch ends with a norm of the sum: with post-norm, they run one by one."""
        return all(branch.order != "post" for branch in self.branches.values())

    @staticmethod
    def _input_norms(branches):
        """That of each branch; and none after the last, whose sum is y."""
        return [*(branch.input_norm for branch in branches), NO_NORM]

    def describe(self):
        return Description("Transformer block", " and ".join(self.branches),
                           (r"dh = dy + J_2^\top dy", r"dx = dh + J_1^\top dh"))
