"""What every block of residual branches has: its parts by name, a cache, and its description.

`block` and `parallel` have what a block computes.
"""

from numformer.description import Residual
from numformer.functional.attention.masks import CAUSAL, EVERYWHERE
from numformer.layers.blocks.residual import (
    CrossAttentionBranch, ResidualBranch, SelfAttentionBranch)
from numformer.parameter import Layer


class BranchedBlock(Layer):
    """The base of `TransformerBlock`; subclasses have its `forward` and `backward`.

    The branches come by name, in the order in which they run. Their sublayers and norms are
    attributes of the block: of ``attention=...`` and ``feedforward=...``, they are ``norm1`` and
    ``attention``, ``norm2`` and ``feedforward``. A state dict has the same names.
    """

    def __init__(self, **branches):
        owner = type(self).__name__
        if not branches:
            raise ValueError(f"{owner}: there is no branch; give attention=..., feedforward=...")
        for name, branch in branches.items():
            if type(branch).forward is not ResidualBranch.forward:
                raise TypeError(f"{owner}: {name} is a {type(branch).__name__} with a forward of "
                                "its own, which a block does not call; override update instead.")
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

    def step(self, x, cache=None, memory=None, pattern=CAUSAL, memory_pattern=EVERYWHERE):
        """Continue a sequence with new positions only; see `ResidualBranch.step`."""
        for branch in self.branches.values():
            x, cache = branch.step(x, cache, memory, pattern, memory_pattern)
        return x, cache

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
