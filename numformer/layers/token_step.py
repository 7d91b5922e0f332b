"""Decoding one token in one compiled call, for decoders whose blocks the kernel knows."""

from operator import attrgetter, is_

import numpy as np

from numformer.backend import compiled_token_step, token_step
from numformer.layers.attention.multi_head import MultiHeadAttention
from numformer.layers.blocks.block import TransformerBlock
from numformer.layers.blocks.residual import ResidualBranch, SelfAttentionBranch
from numformer.layers.feedforward import FeedForward, GatedFeedForward
from numformer.layers.normalization import LayerNorm, RMSNorm

# The branches of a block that the kernel computes
BRANCHES = [("attention", SelfAttentionBranch, "pre"), ("feedforward", ResidualBranch, "pre")]
_data = attrgetter("data")


class TokenStep:
    """What the kernel reads of a decoder, gathered once: addresses of weights, and settings.

    Parameters
    ----------
    blocks : list of TransformerBlock
    norm : LayerNorm or RMSNorm
    head : LMHead
        All of them such as `TokenStep.of` accepts.
    """

    def __init__(self, blocks, norm, head):
        attention, feedforward = blocks[0].attention, blocks[0].feedforward
        dtype = norm.weight.data.dtype
        rows, ends = [_parameters(block) for block in blocks], [*_norm(norm), head.weight]
        self.parts, self.positions = ([*blocks], norm, head), attention.positions
        self.parameters = [parameter for row in (*rows, ends) for parameter in row
                           if parameter is not None]
        self.arrays = [parameter.data for parameter in self.parameters]   # the kernel has addresses
        addresses = compiled_token_step(dtype).addresses                  # alone: keep them alive
        epsilons = [[getattr(part, "epsilon", 0.0) for part in (
            block.norm1, block.norm2, block.attention.query_norm, block.attention.key_norm)]
            for block in blocks]
        self.model = (np.array([addresses(p and p.data for p in row) for row in rows]),
                      np.array(epsilons, dtype), np.array(addresses(p and p.data for p in ends)),
                      norm.epsilon, feedforward.hidden.weight.data.shape[1],
                      type(norm) is LayerNorm, norm.epsilon_inside, feedforward.activation)
        slopes = self.positions.slopes
        self.heads = (self.positions.layout == "half",
                      None if slopes is None else slopes.astype(dtype),
                      attention.n_heads, attention.n_kv_heads)

    @classmethod
    def of(cls, blocks, norm, head):
        """The step of such a decoder; None without the kernel, or if it does not know a part."""
        kinds = [_kind(block, norm, head) for block in blocks]
        if not kinds or kinds[0] is None or kinds.count(kinds[0]) < len(kinds):
            return None
        return cls(blocks, norm, head)

    def is_of(self, *parts):
        """Whether this is the step of these blocks, norm and head, and still valid.

        It is while the weights are the same arrays and the kernel may run.
        """
        return (compiled_token_step(self.arrays[0].dtype) and self.parts == parts
                and all(map(is_, map(_data, self.parameters), self.arrays)))

    def __call__(self, x, caches):
        """Logits (1, 1, V) and caches for one more token x (1, 1, C), given those of each block."""
        position, head = len(caches[0]), self.arrays[-1]
        after = [cache.extended(1) for cache in caches]
        logits = token_step(
            x.reshape(-1), *self.model, self.positions.rotation(position, x.dtype), *self.heads,
            [cache.addresses for cache in after], position, len(head))
        return logits[None, None], after


def _kind(block, norm, head):
    """What all blocks must have in common; None if the kernel does not know a part."""
    if type(block) is not TransformerBlock or BRANCHES != [
            (name, type(branch), branch.order) for name, branch in block.branches.items()]:
        return None
    attention, feedforward, dtype = block.attention, block.feedforward, norm.weight.data.dtype
    norms, positions = (block.norm1, block.norm2, norm), attention.positions.token_step_key()
    known = (type(attention) is MultiHeadAttention and attention.scale is None
             and positions is not None
             and type(feedforward) in (FeedForward, GatedFeedForward)
             and type(norm) in (LayerNorm, RMSNorm)
             and len({(type(part), part.epsilon_inside) for part in norms}) == 1)
    if not known or not compiled_token_step(dtype):
        return None
    arrays = [p and p.data for p in (*_parameters(block), head.weight)]
    if any(x is not None and (x.dtype != dtype or not x.flags.c_contiguous) for x in arrays):
        return None
    shapes = [x is not None and x.shape for x in arrays]
    return feedforward.activation, attention.n_heads, shapes, positions


def _parameters(block):
    """Those of a block in the order of the kernel's NAMES; None for what is not there."""
    attention, feedforward = block.attention, block.feedforward
    return [
        *_norm(block.norm1),
        *_linear(attention.query), *_linear(attention.key), *_linear(attention.value),
        getattr(attention.query_norm, "weight", None), getattr(attention.key_norm, "weight", None),
        *_linear(attention.output),
        *_norm(block.norm2), *_linear(getattr(feedforward, "gate", None)),
        *_linear(feedforward.hidden), *_linear(feedforward.output)]


def _linear(layer):
    return (None, None) if layer is None else (layer.weight, layer.bias)


def _norm(layer):
    return layer.weight, getattr(layer, "bias", None)
