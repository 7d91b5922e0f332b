"""The Transformer of 2017, T5 and BART: an encoder, and a decoder that attends to it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from numformer.checks import check_lengths, check_rows
from numformer.functional.attention.masks import CAUSAL, AttentionPattern
from numformer.functional.positions.relative_bias import relative_position_buckets
from numformer.layers import Dropout, LMHead
from numformer.models.transformer import (
    CrossEntropyModel, Encoder, TransformerConfig, block_of, embedding_of, final_norm_of,
    positions_of, relative_bias_of)
from numformer.parameter import normal


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderConfig(TransformerConfig):
    """The config of an `EncoderDecoder`; the defaults are those of Vaswani et al. (2017).

    Parameters
    ----------
    vocab_size : int
        V, shared by sources and targets.
    context_length : int
        Longest source or target, in tokens, if positions are learned.
    n_layers : int
        Blocks of the encoder; the decoder has as many.
    positions : "sinusoidal", "learned", "rotary", "alibi", "t5" or "none"
        How both stacks depend on the order of tokens. "t5" is a bias by distance, one table for
        each stack: see `RelativePositionBias`. Cross-attention has no positions.
    n_buckets, max_distance : int
        Of T5's bias: rows of its table; distances from here on share the last bucket.
    tied : bool
        Use the token embedding as the output head, too.
    embedding_scale : bool
        Multiply embeddings by sqrt(C).

    Examples
    --------
    >>> EncoderDecoderConfig(vocab_size=65, context_length=64, n_layers=2, n_heads=4, d_model=32,
    ...                      norm="batch")
    Traceback (most recent call last):
    ValueError: EncoderDecoderConfig: norm='batch' is unknown; choose from 'layer_norm', 'rms_norm'.
    """

    POSITIONS: ClassVar = ("sinusoidal", "learned", "t5", *TransformerConfig.POSITIONS)
    WHOLE: ClassVar = ("vocab_size", "context_length", *TransformerConfig.WHOLE)

    vocab_size: int
    context_length: int
    norm_first: bool = False
    feedforward: str = "relu"
    positions: str = "sinusoidal"
    n_buckets: int = 32
    max_distance: int = 128
    tied: bool = True
    embedding_scale: bool = True

    def __post_init__(self):
        super().__post_init__()
        if self.positions == "t5":
            relative_position_buckets(0, self.n_buckets, self.max_distance)           # checks them


class EncoderDecoder(CrossEntropyModel):
    r"""Predict each next token of an output from the tokens before it and from the whole input.

    .. math::

        m = \mathrm{encoder}(\mathrm{embed}(\mathrm{inputs})), \qquad
        x^0 = \mathrm{embed}(\mathrm{outputs}), \qquad
        x^{\ell+1} = \mathrm{block}_\ell(x^\ell, m), \qquad z = \mathrm{norm}(x^L)\, W^\top

    Inputs and outputs share one embedding, and if `tied` the head shares it too (section 3.4). The
    norm is the final norm of pre-norm stacks. T5 and BART are this model with other options.

    Parameters
    ----------
    config : EncoderDecoderConfig
    rng : numpy.random.Generator or None
        Draws the initial weights. With None, parameters have only shapes, for counting.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 3; Raffel et al. (2020), "Exploring
    the Limits of Transfer Learning with a Unified Text-to-Text Transformer", section 2.1; Lewis et
    al. (2020), "BART", section 2.1.

    Examples
    --------
    >>> sizes = dict(vocab_size=65, context_length=16, n_layers=2, n_heads=2, d_model=16)
    >>> model = EncoderDecoder(EncoderDecoderConfig(**sizes), np.random.default_rng(0))
    >>> inputs, lengths = np.array([[7, 8, 9], [5, 0, 0]]), np.array([3, 1])
    >>> outputs = np.array([[1, 9, 8, 7], [1, 5, 0, 0]])
    >>> model(inputs, lengths, outputs).shape                         # logits, (B, T, V)
    (2, 4, 65)
    """

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        self.embedding = embedding_of(c, rng)
        self.input_positions, self.output_positions = positions_of(c, rng), positions_of(c, rng)
        self.dropout = Dropout(c.dropout)
        self.encoder = Encoder(c, rng)
        relative = relative_bias_of(c, rng, bidirectional=False)
        self.blocks = [block_of(c, rng, relative, reads_memory=True) for _ in range(c.n_layers)]
        self.norm = final_norm_of(c)
        self.head = LMHead(self.embedding.weight if c.tied
                           else normal(rng, (c.vocab_size, c.d_model), c.init_std, dtype))

    def forward(self, inputs, lengths, outputs, rng=None):
        """Logits for the token after each of the outputs.

        Parameters
        ----------
        inputs : ndarray of int, shape (B, S)
            Source tokens, padded on the right.
        lengths : ndarray of int, shape (B,)
            Tokens of each input without its padding, 1 .. S.
        outputs : ndarray of int, shape (B, T)
            The input of the decoder: BOS, then the tokens generated so far.
        rng : numpy.random.Generator, optional
            For dropout.

        Returns
        -------
        logits : ndarray, shape (B, T, V)
        saved : tuple
        """
        pattern = _memory_pattern(inputs, lengths, outputs)
        memory, saved_memory = self._encode(inputs, pattern, rng)     # (B, S, C)
        x, saved_outputs = self._embed(outputs, self.output_positions, rng)           # (B, T, C)
        saved_blocks = []
        for block in self.blocks:
            x, saved_block = block.forward(x, memory, CAUSAL, pattern, rng)           # (B, T, C)
            saved_blocks.append(saved_block)
        x, saved_norm = self.norm.forward(x)
        logits, saved_head = self.head.forward(x)                     # (B, T, V)

        saved = (saved_memory, saved_outputs, saved_blocks, saved_norm, saved_head)
        return logits, saved

    def backward(self, dlogits, saved):
        saved_memory, saved_outputs, saved_blocks, saved_norm, saved_head = saved

        # logits = head(norm(x))
        dx = self.head.backward(dlogits, saved_head)
        dx = self.norm.backward(dx, saved_norm)

        # x = block(x, memory), L times: the gradients of memory add up over the blocks
        dmemory = 0
        for block, saved_block in zip(reversed(self.blocks), reversed(saved_blocks)):
            dx, dmemory_of_block = block.backward(dx, saved_block)    # (B, T, C), (B, S, C)
            dmemory = dmemory_of_block + dmemory

        # x = embed(outputs);  memory = encode(inputs)
        self._embed_backward(dx, saved_outputs, self.output_positions)
        self._encode_backward(dmemory, saved_memory)
        return None                                                   # ids have no gradient

    def begin(self, inputs, lengths):
        """Encode inputs (B, S): a cache for `step`, with keys and values of memory per block."""
        pattern = _memory_pattern(inputs, lengths)
        memory, _ = self._encode(inputs, pattern)
        memories = tuple(block.cross_attention.precompute_kv(memory) for block in self.blocks)
        return EncoderDecoderCache((None,) * len(self.blocks), memories, pattern.lengths)

    def step(self, ids, cache):
        """Continue outputs: logits of the new tokens only.

        Parameters
        ----------
        ids : ndarray of int, shape (B, T)
            The new tokens; BOS at first.
        cache : EncoderDecoderCache
            What `begin` or the last call returned.

        Returns
        -------
        logits : ndarray, shape (B, T, V)
        cache : EncoderDecoderCache
            A new value; the old one stays valid.
        """
        if getattr(ids, "ndim", 2) != 2 or len(ids) != len(cache.lengths):
            raise ValueError("EncoderDecoder: ids must have shape (B, T) with "
                             f"B={len(cache.lengths)} as in the cache, but have {np.shape(ids)}.")
        x, _ = self.embedding.forward(ids)                            # (B, T, C)
        x, _ = self.output_positions.forward(x, start=len(cache))
        memory_pattern, new_blocks = AttentionPattern(lengths=cache.lengths), []
        for block, past, memory in zip(self.blocks, cache.blocks, cache.memories, strict=True):
            x, past = block.step(x, past, memory, memory_pattern=memory_pattern)
            new_blocks.append(past)
        cache = EncoderDecoderCache(tuple(new_blocks), cache.memories, cache.lengths)
        return self.head(self.norm(x)), cache

    def _embed(self, ids, positions, rng=None):
        x, saved_tokens = self.embedding.forward(ids)                 # (B, T, C)
        x, saved_positions = positions.forward(x, start=0)
        x, saved_dropout = self.dropout.forward(x, rng)

        saved = (saved_tokens, saved_positions, saved_dropout)
        return x, saved

    def _embed_backward(self, dx, saved, positions):
        saved_tokens, saved_positions, saved_dropout = saved

        # x = dropout(positions(embedding(ids)))
        dx = self.dropout.backward(dx, saved_dropout)
        dx = positions.backward(dx, saved_positions)
        self.embedding.backward(dx, saved_tokens)

    def _encode(self, inputs, pattern, rng=None):
        x, saved_inputs = self._embed(inputs, self.input_positions, rng)
        memory, saved_encoder = self.encoder.forward(x, pattern, rng)

        saved = (saved_inputs, saved_encoder)
        return memory, saved

    def _encode_backward(self, dmemory, saved):
        saved_inputs, saved_encoder = saved

        # memory = encoder(embed(inputs))
        dx = self.encoder.backward(dmemory, saved_encoder)
        self._embed_backward(dx, saved_inputs, self.input_positions)


@dataclass(frozen=True)
class EncoderDecoderCache:
    """What decoding keeps: a value, which `EncoderDecoder.step` replaces by a longer one.

    Parameters
    ----------
    blocks : tuple of KeyValueCache or None
        Self-attention's keys and values of the outputs so far, for every block; None at first.
    memories : tuple of KeyValueCache
        Cross-attention's keys and values of the encoder's output, for every block.
    lengths : ndarray of int, shape (B,)
        Tokens of each input.
    """

    blocks: tuple
    memories: tuple
    lengths: np.ndarray

    def __len__(self):
        return 0 if self.blocks[0] is None else len(self.blocks[0])

    def rows(self, order):
        """The cache of the sequences with indices `order`, an int array; indices may repeat."""
        return EncoderDecoderCache(tuple(past and past.rows(order) for past in self.blocks),
                                   tuple(memory.rows(order) for memory in self.memories),
                                   self.lengths[order])


def _memory_pattern(inputs, lengths, outputs=None):
    """Check the arguments; return the pattern that masks the padding of the inputs."""
    check_rows("EncoderDecoder", "inputs", inputs, "S")
    if outputs is not None:
        check_rows("EncoderDecoder", "outputs", outputs)
    B, S = np.shape(inputs)
    if outputs is not None and len(outputs) != B:
        raise ValueError(f"EncoderDecoder: {B} inputs and {len(outputs)} outputs came; give an "
                         "output for each input.")
    check_lengths("EncoderDecoder", lengths, B, S, "S")
    return AttentionPattern(lengths=lengths)


# T5 multiplies by 1 / sqrt(C) before the head, we by sqrt(C) after the embedding: the same model,
# if its embedding table is sqrt(C) times ours.
T5 = dict(vocab_size=32128, context_length=512, norm="rms_norm", norm_first=True, positions="t5",
          scaled_scores=False, bias=False, epsilon=1e-6)
BART = dict(vocab_size=50265, context_length=1024, feedforward="gelu", positions="learned",
            embedding_scale=False)
_VASWANI = dict(vocab_size=37000, context_length=512)                 # "about 37000": section 5.1

ENCODER_DECODERS = {
    name: EncoderDecoderConfig(**choices, n_layers=L, n_heads=H, d_model=C, d_hidden=F)
    for name, choices, L, H, C, F in (
        # Vaswani et al. (2017), table 3: 65 M as printed (these sizes give 63 M), and 213 M
        ("transformer-base", _VASWANI, 6, 8, 512, 2048),
        ("transformer-big", _VASWANI, 6, 16, 1024, 4096),
        # Raffel et al. (2020), section 3.7: 60 M, 220 M, 770 M. The published weights have 60.5 M,
        # 222.9 M and 737.7 M; counting the table (32.9 M) twice gives the paper's last number.
        ("t5-small", T5, 6, 8, 512, 2048),
        ("t5-base", T5, 12, 12, 768, 3072),
        ("t5-large", T5, 24, 16, 1024, 4096))}
