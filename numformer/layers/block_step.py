"""One token's way through a pre-norm block in one compiled call, where the block is made of parts that the kernel knows."""

from numformer.backend import compiled_block_step
from numformer.functional.positions import rotary_angles
from numformer.layers.attention import MultiHeadAttention
from numformer.layers.dropout import Identity
from numformer.layers.feedforward import FeedForward, GatedFeedForward
from numformer.layers.normalization import LayerNorm, RMSNorm


def one_token_step(block, x, cache):
    """(y, cache) of `PreNormBlock.step` for x (1, 1, C); None where the kernel is not wanted, not there, or does not know a part."""
    norm1, attention, norm2, feedforward = block.norm1, block.attention, block.norm2, block.feedforward
    kernel = compiled_block_step(x)
    known = (kernel and type(attention) is MultiHeadAttention and type(feedforward) in (FeedForward, GatedFeedForward)
             and type(norm1) is type(norm2) and type(norm1) in (LayerNorm, RMSNorm) and norm1.epsilon_inside == norm2.epsilon_inside)
    if not known:
        return None
    rotary, position = attention.rotary, len(cache)
    gate = feedforward.gate if type(feedforward) is GatedFeedForward else None
    slopes = None if attention.slopes is None else attention.slopes.astype(x.dtype)
    weights = [
        *_norm(norm1), *_linear(attention.query), *_linear(attention.key), *_linear(attention.value),
        _gain(attention.query_norm), _gain(attention.key_norm), slopes, *_linear(attention.output),
        *_norm(norm2), *_linear(gate), *_linear(feedforward.hidden), *_linear(feedforward.output)]
    if any(array is not None and array.dtype != x.dtype for array in weights):
        return None
    turned = not isinstance(rotary, Identity)
    angles = rotary_angles(position, position + 1, rotary.d_head, rotary.base, x.dtype) if turned else None
    after, keys, values = cache.with_room(1)
    y = kernel(x.reshape(-1), weights, [norm1.epsilon, norm2.epsilon, _epsilon(attention.query_norm), _epsilon(attention.key_norm)],
               type(norm1) is LayerNorm, norm1.epsilon_inside, turned and rotary.layout == "half", feedforward.activation,
               angles and (angles[0][0], angles[1][0]), keys[0], values[0], position)
    return y.reshape(x.shape), after


def _linear(layer):
    return (None, None) if layer is None else (layer.weight.data, None if layer.bias is None else layer.bias.data)


def _norm(layer):
    shift = getattr(layer, "shift", None)
    return layer.gain.data, None if shift is None else shift.data


def _gain(layer):
    return None if isinstance(layer, Identity) else layer.gain.data


def _epsilon(layer):
    return 0.0 if isinstance(layer, Identity) else layer.epsilon
