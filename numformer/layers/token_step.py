"""One token's way through a decoder in one compiled call, where its blocks are alike and made of parts that the kernel knows."""

from operator import attrgetter, is_

import numpy as np

from numformer.backend import compiled_token_step, token_step
from numformer.functional.positions import rotary_angles
from numformer.layers.attention import MultiHeadAttention
from numformer.layers.block import PreNormBlock
from numformer.layers.dropout import Identity
from numformer.layers.feedforward import FeedForward, GatedFeedForward
from numformer.layers.normalization import LayerNorm, RMSNorm

_data = attrgetter("data")


class TokenStep:
    """What the kernel reads of a decoder, gathered once for a text: where the weights lie, and how the blocks are made.

    Parameters
    ----------
    blocks : list of PreNormBlock
    norm : LayerNorm or RMSNorm
    head : Unembedding
        All of them such as `TokenStep.of` has looked at.
    """

    def __init__(self, blocks, norm, head):
        attention, feedforward, dtype = blocks[0].attention, blocks[0].feedforward, norm.gain.data.dtype
        rows, ends = [_parameters(block) for block in blocks], [*_norm(norm), head.weight]
        self.parts, self.rotary = ([*blocks], norm, head), attention.rotary
        self.parameters = [parameter for row in (*rows, ends) for parameter in row if parameter is not None]
        self.arrays = [parameter.data for parameter in self.parameters]       # kept alive: the kernel knows addresses alone
        places = compiled_token_step(dtype).places
        epsilons = [[getattr(part, "epsilon", 0.0) for part in (
            block.norm1, block.norm2, block.attention.query_norm, block.attention.key_norm)] for block in blocks]
        self.made = (np.array([places(p and p.data for p in row) for row in rows]), np.array(epsilons, dtype),
                     np.array(places(p and p.data for p in ends)), norm.epsilon, feedforward.hidden.weight.data.shape[1],
                     type(norm) is LayerNorm, norm.epsilon_inside, feedforward.activation)
        slopes = None if attention.slopes is None else attention.slopes.astype(dtype)
        self.heads = getattr(self.rotary, "layout", None) == "half", slopes, attention.n_heads, attention.n_kv_heads

    @classmethod
    def of(cls, blocks, norm, head):
        """The step of such a decoder; None where the kernel is not wanted, not there, or does not know a part."""
        kinds = [_kind(block, norm, head) for block in blocks]
        if not kinds or kinds[0] is None or kinds.count(kinds[0]) < len(kinds):
            return None
        return cls(blocks, norm, head)

    def is_of(self, *parts):
        """Whether it was gathered from these blocks, norm and head, their weights are still the same arrays, and the kernel is wanted."""
        return compiled_token_step(self.arrays[0].dtype) and self.parts == parts and all(map(is_, map(_data, self.parameters), self.arrays))

    def __call__(self, x, caches):
        """(logits, caches) for one more token, x (1, 1, C), with what the blocks remember of those before."""
        position, head = len(caches[0]), self.arrays[-1]
        angles = None
        if not isinstance(self.rotary, Identity):
            cosine, sine = rotary_angles(position, position + 1, self.rotary.d_head, self.rotary.base, x.dtype)
            angles = cosine[0], sine[0]
        after = [cache.with_room(1) for cache in caches]
        logits = token_step(x.reshape(-1), *self.made, angles, *self.heads, [cache.places for cache in after], position, len(head))
        return logits[None, None], after


def _kind(block, norm, head):
    """How a block is made, which must be the same for all of them; None where the kernel does not know a part."""
    if type(block) is not PreNormBlock:
        return None
    attention, feedforward, norms, dtype = block.attention, block.feedforward, (block.norm1, block.norm2, norm), norm.gain.data.dtype
    known = (type(attention) is MultiHeadAttention and attention.relative is None and attention.scale is None
             and type(feedforward) in (FeedForward, GatedFeedForward)
             and type(norm) in (LayerNorm, RMSNorm) and len({(type(part), part.epsilon_inside) for part in norms}) == 1)
    if not known or not compiled_token_step(dtype):
        return None
    arrays, rotary = [p and p.data for p in (*_parameters(block), head.weight)], attention.rotary
    if any(x is not None and (x.dtype != dtype or not x.flags.c_contiguous) for x in arrays):
        return None
    return (feedforward.activation, attention.n_heads, [x is not None and x.shape for x in arrays],
            None if attention.slopes is None else attention.slopes.tolist(),
            None if isinstance(rotary, Identity) else (rotary.base, rotary.layout))


def _parameters(block):
    """Those of a block in the order of the kernel's NAMES; None for what is not there."""
    attention, feedforward = block.attention, block.feedforward
    return [
        *_norm(block.norm1), *_linear(attention.query), *_linear(attention.key), *_linear(attention.value),
        getattr(attention.query_norm, "gain", None), getattr(attention.key_norm, "gain", None), *_linear(attention.output),
        *_norm(block.norm2), *_linear(getattr(feedforward, "gate", None)), *_linear(feedforward.hidden), *_linear(feedforward.output)]


def _linear(layer):
    return (None, None) if layer is None else (layer.weight, layer.bias)


def _norm(layer):
    return layer.gain, getattr(layer, "shift", None)
