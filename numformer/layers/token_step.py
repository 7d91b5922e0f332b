"""New tokens of several texts in one compiled call, for decoders whose parts the kernel knows."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from numformer.backend import (
    compiled_token_step, is_compiled, run_side_by_side, token_step)
from numformer.layers.attention.kv_cache import KeyValueCache
from numformer.layers.attention.multi_head import MultiHeadAttention
from numformer.layers.attention.paged_cache import PagedCache
from numformer.layers.blocks.block import TransformerBlock
from numformer.layers.blocks.residual import ResidualBranch, SelfAttentionBranch
from numformer.layers.dropout import Identity
from numformer.layers.feedforward import FeedForward, GatedFeedForward
from numformer.layers.linear import Linear, LMHead
from numformer.layers.normalization import LayerNorm, RMSNorm
from numformer.layers.positions.alibi import ALiBi
from numformer.layers.positions.in_attention import NoPositions
from numformer.layers.positions.rotary import RotaryPositions

# The branches of a block that the kernel computes
BRANCHES = [("attention", SelfAttentionBranch, "pre"), ("feedforward", ResidualBranch, "pre")]


class UnknownPart(ValueError):
    """A decoder has a part that the compiled step does not know, or the step is off."""


class TokenStep:
    """A decoder's weights as the kernel reads them: copies, packed as panels.

    A step is made when a generation begins and belongs to its cache. So a generation goes on with
    the weights with which it began, as do the keys and values in its cache, and the next one has a
    step of its own: no training in between can leave stale copies. Until the generation ends, the
    copies take as much memory as the weights themselves, or a half or a quarter with `weights`.

    Parameters
    ----------
    blocks : list of TransformerBlock
    norm : LayerNorm or RMSNorm
    head : LMHead
        All of them such as `TokenStep.of` accepts.
    weights : "bfloat16" or "int8", optional
        How the copies of all matrices are stored: see `numformer.functional.quantization`. Norms,
        biases and the embedding stay as they are.
    """

    def __init__(self, blocks, norm, head, weights=None):
        attention, feedforward = blocks[0].attention, blocks[0].feedforward
        positions, dtype = attention.positions, norm.weight.data.dtype
        kernels = compiled_token_step(dtype)
        self.parts, self.dtype = (tuple(blocks), norm, head), dtype
        packed = run_side_by_side(partial(_packed_block, kernels, weights), blocks)
        logits = kernels.Panels([head.weight.data.T], [None], weights)
        final = [*_packed_norm(norm), logits]
        self.kept = packed, final                             # the kernel has addresses alone
        epsilons = [[getattr(part, "epsilon", 0.0) for part in (
            block.norm1, block.norm2, block.attention.query_norm, block.attention.key_norm)]
            for block in blocks]
        H, G, D = attention.n_heads, attention.n_kv_heads, attention.d_head
        slopes = positions.slopes
        self.model = kernels.Model(
            np.array([kernels.addresses(parts) for parts in packed]),
            np.array(kernels.addresses(final, kernels.FINAL)), np.array(epsilons, dtype),
            norm.epsilon, len(norm.weight.data), feedforward.hidden.weight.data.shape[1],
            len(head.weight.data), H, G, D, logits.kind, logits.numbers.itemsize,
            type(norm) is LayerNorm, norm.epsilon_inside, positions.layout == "half",
            feedforward.activation, None if slopes is None else slopes.astype(dtype))
        self.rotary = positions if type(positions) is RotaryPositions else None
        self.page = (kernels.page_shape(len(blocks), G, D, dtype), kernels.page_positions(dtype),
                     dtype)

    @classmethod
    def of(cls, blocks, norm, head, weights=None):
        """The step of such a decoder; None without the kernel, or if it does not know a part."""
        return cls(blocks, norm, head, weights) if cls.knows(blocks, norm, head) else None

    @staticmethod
    def knows(blocks, norm, head):
        """Whether the kernel is there, and knows all parts of such a decoder."""
        kinds = [_kind(block, norm, head) for block in blocks]
        return bool(kinds) and kinds[0] is not None and kinds.count(kinds[0]) == len(kinds)

    def begin(self, texts=0):
        """A cache without positions, for `texts` texts; 0: for any number."""
        return TextsCache(self, PagedCache(*self.page, texts))

    def is_of(self, blocks, norm, head):
        """Whether this is a step of these very parts, and the kernel may run."""
        return (compiled_token_step(self.dtype) is not None
                and self.parts == (tuple(blocks), norm, head))

    def __call__(self, x, pages, left_padding=None, last=False):
        """Continue texts.

        Parameters
        ----------
        x : ndarray, shape (B, T, C)
            The embedded new tokens.
        pages : PagedCache
        left_padding : ndarray of int, shape (B,), optional
            How many tokens to skip at the beginning of each row.
        last : bool
            Whether only the logits of the last token are wanted.

        Returns
        -------
        logits : ndarray, shape (B, T, V), or (B, 1, V) with `last`
            Those of padding are 0.
        pages : PagedCache
        """
        (B, T, C), V = x.shape, self.model.V
        if left_padding is None:
            is_token, new, rows = None, np.array([T] * B), x.reshape(B * T, C)
        else:
            is_token = np.arange(T) >= left_padding[:, None]          # (B, T)
            new, rows = T - left_padding, x[is_token]                 # (B,), (N, C)
        ends, after, angles = new.cumsum(), pages.extended(new), None
        if self.rotary is not None:
            positions = 1 << (len(after) - 1).bit_length()            # few tables of any length
            *angles, _ = self.rotary.rotation(0, positions, x.dtype)
        texts = np.array([ends - new, ends, pages.lengths]).T.copy()  # (B, 3)
        logits = token_step(
            np.ascontiguousarray(rows), ends - 1 if last else np.arange(len(rows)), texts,
            after.addresses, self.model, angles)
        if last:
            return logits[:, None], after
        if is_token is None:
            return logits.reshape(B, T, V), after
        all_logits = np.zeros((B, T, V), x.dtype)
        all_logits[is_token] = logits
        return all_logits, after


@dataclass(frozen=True)
class TextsCache:
    """The cache of a generation with the compiled step: its step, and keys and values in pages."""

    step: TokenStep
    pages: PagedCache

    def __len__(self):
        return len(self.pages)

    @property
    def texts(self):
        """Number of texts; 0 as long as any number may begin."""
        return len(self.pages.lengths)

    @property
    def is_compiled(self):
        """Whether the next step is compiled: it has no products of BLAS."""
        return compiled_token_step(self.step.dtype) is not None

    @property
    def n_blocks(self):
        return len(self.step.model.weights)

    @property
    def left_padding(self):
        """Left padding of each text in `blocks`; None if all have one length."""
        padding = len(self) - self.pages.lengths
        return padding if padding.any() else None

    @property
    def blocks(self):
        """Keys and values of every block as the layers cache them: copies, with left padding."""
        found, padding = [], self.left_padding
        for layer in range(self.n_blocks):
            k, v = self.pages.keys_and_values(layer, self.step.model.D)
            if self.step.rotary is not None and padding is not None:  # layers count padding, too
                for b, shift in enumerate(padding):
                    G, S, D = k[b].shape
                    k[b] = self.step.rotary(k[b].reshape(1, G * S, 1, D), start=int(shift)
                                            ).reshape(G, S, D) / self.step.rotary.attention_factor
            found.append(KeyValueCache(k, v))
        return tuple(found)

    def restarted(self, which):
        """A cache in which some texts begin again, with the same weights; `which` is a mask."""
        return TextsCache(self.step, self.pages.restarted(which))

    def rows(self, order):
        """A cache of some of the texts, possibly repeated; `order` is an array of indices."""
        return TextsCache(self.step, self.pages.rows(order))


def _packed_block(kernels, weights, block):
    """Copies of the weights of a block, in the order of the kernel's NAMES; None: not there."""
    attention, feedforward = block.attention, block.feedforward
    gate, norms = getattr(feedforward, "gate", None), (attention.query_norm, attention.key_norm)

    def panels(*layers):
        return kernels.Panels([layer.weight.data for layer in layers],
                              [layer.bias and layer.bias.data for layer in layers], weights)

    return [
        *_packed_norm(block.norm1), panels(attention.query, attention.key, attention.value),
        *(_packed_norm(norm)[0] for norm in norms), panels(attention.output),
        *_packed_norm(block.norm2), gate and panels(gate), panels(feedforward.hidden),
        panels(feedforward.output)]


def _packed_norm(norm):
    """Copies of the weight and the bias of a norm; None: not there."""
    weight, bias = getattr(norm, "arrays", (None,))[0], getattr(norm, "bias", None)
    return [None if weight is None else weight.copy(), bias and bias.data.copy()]


def _kind(block, norm, head):
    """What all blocks must have in common; None if the kernel does not know a part.

    It goes by classes, not by what they inherit from: a subclass may compute anything.
    """
    branches = block.branches if type(block) is TransformerBlock else {}
    if BRANCHES != [(name, type(branch), branch.order) for name, branch in branches.items()]:
        return None
    attention, feedforward = (branch.sublayer for branch in branches.values())
    norms = [*(branch.input_norm for branch in branches.values()), norm]
    own = [block.attention, block.feedforward, block.norm1, block.norm2]
    if not (all(one is two for one, two in zip(own, [attention, feedforward, *norms]))
            and all(type(branch.output_norm) is type(branch.sum_norm) is Identity
                    for branch in branches.values())
            and type(norm) in (LayerNorm, RMSNorm)
            and all(type(part) is type(norm) and part.epsilon_inside == norm.epsilon_inside
                    for part in norms)
            and type(attention) is MultiHeadAttention and type(head) is LMHead
            and attention.scale is attention.softcap is None and head.weight.data.ndim == 2
            and type(feedforward) in (FeedForward, GatedFeedForward)
            and is_compiled(feedforward.activation)):
        return None
    gates = [feedforward.gate] if type(feedforward) is GatedFeedForward else []
    linears = [attention.query, attention.key, attention.value, attention.output, *gates,
               feedforward.hidden, feedforward.output]
    if not all(type(part) is Linear for part in linears):
        return None
    shapes = _shapes(attention, feedforward, len(norm.weight.data))
    head_norms, D = [attention.query_norm, attention.key_norm], attention.d_head
    normed = type(head_norms[0]) is RMSNorm
    vectors = [(part, norm.weight.data.shape) for part in norms]
    vectors += [(part, (D,)) for part in head_norms if normed]
    positions = _positions(attention)
    if not (positions is not None
            and all(type(part) is (RMSNorm if normed else Identity) for part in head_norms)
            and all(part.epsilon_inside for part in head_norms if normed)
            and all(_fits(part, shape, shape[1:], head) for part, shape in zip(linears, shapes))
            and all(_fits(part, shape, shape, head) for part, shape in vectors)
            and _fits(head, (len(head.weight.data), len(norm.weight.data)), None, head)):
        return None
    kernels = compiled_token_step(head.weight.data.dtype)
    if kernels is None or feedforward.activation not in kernels.KINDS:
        return None
    biases = [part.bias is None for part in linears]
    return (type(feedforward), feedforward.activation, normed, shapes, biases, attention.n_heads,
            positions)


def _shapes(attention, feedforward, C):
    """The shapes that the kernel takes the linear maps of a block to have."""
    H, G, D = attention.n_heads, attention.n_kv_heads, attention.d_head
    F = feedforward.hidden.weight.data.shape[-1]
    inside = 2 if type(feedforward) is GatedFeedForward else 1
    return [(C, H * D), (C, G * D), (C, G * D), (H * D, C), *[(C, F)] * inside, (F, C)]


def _fits(part, shape, bias_shape, head):
    """Whether weight and bias are arrays of these shapes and of the head's dtype."""
    bias = getattr(part, "bias", None)
    pairs = [(part.weight, shape)] + ([] if bias is None else [(bias, bias_shape)])
    return all(type(parameter.data) is np.ndarray and parameter.data.shape == wanted
               and parameter.data.dtype == head.weight.data.dtype for parameter, wanted in pairs)


def _positions(attention):
    """The settings of positions inside attention that the kernel knows; else None."""
    positions = attention.positions
    if type(positions) is RotaryPositions and (
            positions.d_head == positions.rotated_width == attention.d_head):
        return "rotary", positions.angles, positions.layout
    if type(positions) is ALiBi and len(positions.slopes) == attention.n_heads:
        return "alibi", *positions.slopes
    return ("none",) if type(positions) is NoPositions else None
