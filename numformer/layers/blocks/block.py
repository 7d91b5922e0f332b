"""The Transformer block: residual branches in sequence, or in parallel.

Read `minimal.block` first: one pre-norm block with its two branches written out. `in_one_pass`
computes a pre-norm block faster.
"""

from numformer.backend import add, residual_dropout, residual_dropout_backward
from numformer.description import Description, Residual, Row
from numformer.functional.attention.masks import CAUSAL, EVERYWHERE
from numformer.layers.blocks.in_one_pass import (
    backward_in_one_pass, forward_in_one_pass, joins_sums_and_norms)
from numformer.layers.blocks.residual import CrossAttentionBranch, SelfAttentionBranch
from numformer.parameter import Layer


class TransformerBlock(Layer):
    r"""Residual branches in sequence: the output of each is the input of the next.

    With pre-norm branches these are the two lines of GPT-2:

    .. math:: h = x + \mathrm{attention}(\mathrm{norm}_1(x)), \qquad
              y = h + \mathrm{feedforward}(\mathrm{norm}_2(h))

    The sums come from `ResidualBranch`, which describes the orders of norm and sum. In the backward
    the gradient goes along each sum unchanged, and through the sublayer and its norm as well:

    .. math:: dh = dy + J_2^\top dy, \qquad dx = dh + J_1^\top dh

    with the Jacobians of attention(norm_1(x)) and of feedforward(norm_2(h)).

    A decoder's block is ``TransformerBlock(attention=..., feedforward=...)``. In an
    encoder-decoder, ``cross_attention=...`` comes between the two. The sublayers and norms of the
    branches are attributes of the block: ``block.norm1`` and ``block.attention``, ``block.norm2``
    and ``block.feedforward``. A state dict has the same names.

    Parameters
    ----------
    **branches : ResidualBranch
        In the order in which they run; at most one `SelfAttentionBranch` and one
        `CrossAttentionBranch`, since `step` has one cache for each.

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
    >>> from numformer.layers import FeedForward, LayerNorm, MultiHeadAttention, ResidualBranch
    >>> rng = np.random.default_rng(0)
    >>> block = TransformerBlock(
    ...     attention=SelfAttentionBranch(LayerNorm(8), MultiHeadAttention(8, 2, rng)),
    ...     feedforward=ResidualBranch(LayerNorm(8), FeedForward(8, 32, "gelu", rng)))
    >>> [name for name, _ in block.named_layers()][1:3]
    ['norm1', 'attention']
    >>> y, saved = block.forward(np.ones((1, 5, 8), np.float32), pattern=CAUSAL)
    >>> block.backward(np.ones_like(y), saved).shape
    (1, 5, 8)
    """

    def __init__(self, **branches):
        owner = type(self).__name__
        if not branches:
            raise ValueError(f"{owner}: there is no branch; give attention=..., feedforward=...")
        for kind in (SelfAttentionBranch, CrossAttentionBranch):
            found = [name for name, branch in branches.items() if isinstance(branch, kind)]
            if len(found) > 1:
                raise ValueError(f"{owner}: {' and '.join(found)} are each a {kind.__name__}, but "
                                 "a block has at most one; put them into two blocks.")
        for k, (name, branch) in enumerate(branches.items(), start=1):
            setattr(self, f"norm{k}", branch.norm)
            setattr(self, name, branch.sublayer)
            if branch.order == "sandwich":
                setattr(self, f"output_norm{k}", branch.output_norm)
        self.branches = branches

    @property
    def reads_memory(self):
        """Whether one of the branches is a cross-attention."""
        return any(branch.reads_memory for branch in self.branches.values())

    def forward(self, x, memory=None, pattern=EVERYWHERE, memory_pattern=EVERYWHERE, rng=None):
        """Run the branches; parameters as in `ResidualBranch.forward`.

        Returns
        -------
        y : ndarray, shape (B, T, C) or (B, height, width, C)
        saved : tuple

        Raises
        ------
        TypeError
            If there is a memory but no branch that reads it, or the other way round.
        """
        self._check_memory(memory)
        branches, patterns = list(self.branches.values()), (pattern, memory_pattern)
        saved_branches, saved_norm, at_once = [], None, joins_sums_and_norms(branches)

        if at_once:                                   # all of `else` in fewer passes over memory
            x, (saved_branches, saved_norm) = forward_in_one_pass(
                branches, x, memory, *patterns, rng)
        else:
            for branch in branches:                   # pre-norm: n = norm(x);  x = x + sublayer(n)
                x, saved_branch = branch.forward(x, memory, *patterns, rng)
                saved_branches.append(saved_branch)

        saved = (saved_branches, saved_norm, at_once)
        return x, saved

    def backward(self, dy, saved, dauxiliary=0.0):
        """Gradient of `x`, or of `x` and the memory; `dauxiliary` is that of `auxiliary_loss`."""
        branches, (saved_branches, saved_norm, at_once) = list(self.branches.values()), saved
        if at_once:
            return backward_in_one_pass(branches, dy, (saved_branches, saved_norm), dauxiliary)
        dx = dy
        for branch, saved_branch in zip(reversed(branches), reversed(saved_branches)):
            # x = branch(x, memory): pre-norm, x + sublayer(norm(x))
            if branch.reads_memory:
                dx, dmemory = branch.backward(dx, saved_branch, dauxiliary)
            else:
                dx = branch.backward(dx, saved_branch, dauxiliary)
        return (dx, dmemory) if self.reads_memory else dx

    def auxiliary_loss(self, saved):
        """The sum of the auxiliary losses of the branches; `saved` is that of `forward`."""
        saved_branches, *_ = saved
        return sum(branch.auxiliary_loss(saved_branch)
                   for branch, saved_branch in zip(self.branches.values(), saved_branches))

    def step(self, x, cache=None, memory=None, pattern=CAUSAL, memory_pattern=EVERYWHERE):
        """Continue a sequence with new positions only; see `ResidualBranch.step`."""
        for branch in self.branches.values():
            x, cache = branch.step(x, cache, memory, pattern, memory_pattern)
        return x, cache

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

    def describe_block(self, reader, shape, attention):
        """The branches in series: `sum_norm`, where there is one, reads the sum.

        `attention` is what attention to the input is called.
        """
        parts = []
        for branch in self.branches.values():
            box = branch.sublayer_box(reader, shape, attention)
            parts += self._joined(branch.describe_parts(reader, box))
            parts += reader.boxes(shape, branch.sum_norm)
        return tuple(parts)

    def _joined(self, parts):
        return [Residual(parts)]


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
    >>> from numformer.layers import FeedForward, LayerNorm, MultiHeadAttention, ResidualBranch
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
