"""The Transformer block: residual branches in sequence.

Read `minimal.block` first: one block of two branches, without classes. `branched` has what a block
needs besides its forward and backward, `in_one_pass` the same sums and norms computed faster,
`parallel` the block whose branches run in parallel.
"""

from numformer.backend import add
from numformer.description import Description
from numformer.functional.attention.masks import EVERYWHERE
from numformer.layers.blocks.add_and_norm import add_and_norm, add_and_norm_backward
from numformer.layers.blocks.branched import BranchedBlock
from numformer.layers.blocks.in_one_pass import (
    backward_in_one_pass, forward_in_one_pass, joins_sums_and_norms)


class TransformerBlock(BranchedBlock):
    r"""Residual branches in sequence: the output of each is the input of the next.

    With norms before the sublayers (pre-norm) these are the two lines of GPT-2:

    .. math:: h = x + \mathrm{attention}(\mathrm{norm}_1(x)), \qquad
              y = h + \mathrm{feedforward}(\mathrm{norm}_2(h))

    In the backward the gradient goes along each sum unchanged, and through the sublayer and its
    norm as well:

    .. math:: dh = dy + J_2^\top dy, \qquad dx = dh + J_1^\top dh

    where J_1 is the Jacobian of attention(norm_1(x)) and J_2 that of feedforward(norm_2(h)), each
    taken as a vector. So a gradient reaches the first of many blocks without passing through a
    sublayer. The example writes both directions out.

    A decoder's block is ``TransformerBlock(attention=..., feedforward=...)``. In an
    encoder-decoder, ``cross_attention=...`` comes between the two, and reads the memory, what the
    encoder made. With post-norm branches, the sublayer reads x itself, and the norm is that of the
    sum.

    Parameters
    ----------
    **branches : ResidualBranch
        In the order in which they run; at most one `SelfAttentionBranch` and one
        `CrossAttentionBranch`. Their sublayers and norms are attributes of the block:
        ``block.norm1`` and ``block.attention``, and so on.

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
    >>> x = rng.standard_normal((1, 5, 8), np.float32)                # (B, T, C)
    >>> dy = np.ones_like(x)
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
        """Run the branches one after the other; parameters as in `ResidualBranch.forward`.

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
        branches, inputs = list(self.branches.values()), (memory, pattern, memory_pattern, rng)
        if joins_sums_and_norms(branches):            # the lines below in fewer passes over memory
            return forward_in_one_pass(branches, x, *inputs)

        saved_branches = []
        for branch in branches:
            n, saved_norm = branch.input_norm.forward(x)              # norm(x)
            b, saved_sublayer = branch.update(n, *inputs)             # sublayer(n)
            (_, x), saved_sum = add_and_norm(branch.sum_norm, x, b, branch.dropout, rng)     # x + b
            saved_branches.append((saved_sublayer, saved_sum, saved_norm))

        saved = (saved_branches, None)
        return x, saved

    def backward(self, dy, saved, dauxiliary=0.0):
        """Gradient of `x`, or of `x` and the memory; `dauxiliary` is that of `auxiliary_loss`."""
        branches, (saved_branches, saved_first) = list(self.branches.values()), saved
        if saved_first is not None:
            return backward_in_one_pass(branches, dy, saved, dauxiliary)

        dx = dy
        for branch, (saved_sublayer, saved_sum, saved_norm) in zip(
                reversed(branches), reversed(saved_branches)):
            # x = x + b: nothing but the sum is read here
            dx, db = add_and_norm_backward(branch.sum_norm, None, dx, saved_sum)

            # b = sublayer(n)
            dn, *dmemory_of_branch = branch.update_backward(db, saved_sublayer, dauxiliary)
            if branch.reads_memory:
                dmemory, = dmemory_of_branch

            # n = norm(x)
            dx = add(dx, branch.input_norm.backward(dn, saved_norm))  # +, reusing memory
        return (dx, dmemory) if self.reads_memory else dx

    def auxiliary_loss(self, saved):
        """The sum of the auxiliary losses of the branches; `saved` is that of `forward`."""
        saved_branches, *_ = saved
        return sum(branch.auxiliary_loss(saved_branch)
                   for branch, saved_branch in zip(self.branches.values(), saved_branches))

    @property
    def reads_memory(self):
        """Whether one of the branches is a cross-attention."""
        return any(branch.reads_memory for branch in self.branches.values())

    def _check_memory(self, memory):
        if (memory is not None) != self.reads_memory:
            raise TypeError(f"{type(self).__name__}: " + (
                "memory is missing; give what the encoder made, an array of shape (B, S, C)."
                if self.reads_memory else
                f"no branch reads a memory, but memory={type(memory).__name__} came; leave it out, "
                "or add a CrossAttentionBranch."))

    def describe(self):
        return Description("Transformer block", " and ".join(self.branches),
                           (r"dh = dy + J_2^\top dy", r"dx = dh + J_1^\top dh"))
