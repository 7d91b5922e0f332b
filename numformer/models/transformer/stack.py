"""The stack: blocks that are walked forward, and backward in reverse."""

from numformer.layers.blocks.local import FULL
from numformer.models.transformer.experts import feedforwards_of
from numformer.models.transformer.parts import attention_of, block_of, shared_positions_of


class Stack(list):
    r"""Blocks in sequence, a list of them.

    .. math:: x^{\ell+1} = \mathrm{block}_\ell(x^\ell), \qquad
              \bar{x}^\ell = J_\ell^\top\, \bar{x}^{\ell+1}

    A model's attribute is such a list, so parameters have the names ``blocks.0.attention...``.

    Examples
    --------
    >>> import numpy as np
    >>> from numformer.layers import Linear
    >>> rng = np.random.default_rng(0)
    >>> stack = Stack(Linear(4, 4, rng) for _ in range(3))
    >>> y, saved = stack.forward(np.ones((2, 4), np.float32))
    >>> stack.backward(y, saved).shape
    (2, 4)
    """

    def forward(self, x, *given, **options):
        """Run all blocks; what they all get besides x, such as a pattern, comes after it."""
        saved = []
        for block in self:
            x, saved_block = block.forward(x, *given, **options)      # the shape of x
            saved.append(saved_block)
        return x, saved

    def backward(self, dx, saved, *dauxiliary):
        """Gradient of `x`, or of `x` and the memory that all blocks read.

        `dauxiliary` is the gradient of `auxiliary_loss`, for blocks that have one.
        """
        dmemory = None
        for block, saved_block in zip(reversed(self), reversed(saved)):
            # x = block(x, memory)
            dx = block.backward(dx, saved_block, *dauxiliary)
            if isinstance(dx, tuple):                 # the gradients of memory add up
                dx, dmemory_of_block = dx
                dmemory = dmemory_of_block if dmemory is None else dmemory_of_block + dmemory
        return dx if dmemory is None else (dx, dmemory)

    def auxiliary_loss(self, saved):
        """The sum of the auxiliary losses of the blocks; `saved` is that of `forward`."""
        return sum(block.auxiliary_loss(each) for block, each in zip(self, saved))

    def step(self, x, caches, memories=None, **options):
        """Continue sequences: the output at the new positions alone, and the new caches.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
            The new positions.
        caches : sequence of KeyValueCache or None
            Of each block; None at the start.
        memories : sequence of KeyValueCache, optional
            Of each block, where they read a memory.
        **options
            Of `TransformerBlock.step`, for all blocks.
        """
        new_caches = []
        for block, cache, memory in zip(self, caches, memories or [None] * len(self), strict=True):
            x, cache = block.step(x, cache, memory, **options)
            new_caches.append(cache)
        return x, tuple(new_caches)


def stack_of(config, rng, bidirectional, reads_memory=False, first_norm=None,
             attention=attention_of):
    """The blocks of a config; those of local layers, and of layers with experts, are others.

    `bidirectional` is of shared positions; `first_norm` is that of the first attention, if it is
    another; `reads_memory` and `attention` are as in `block_of`.
    """
    shared, norms = shared_positions_of(config, rng, bidirectional), [first_norm]
    norms += [None] * (config.n_layers - 1)
    kinds = getattr(config, "layer_kinds", [FULL] * config.n_layers)
    return Stack(block_of(config, rng, shared, reads_memory, feedforward, norm, kind, attention)
                 for norm, kind, feedforward in zip(norms, kinds, feedforwards_of(config)))
