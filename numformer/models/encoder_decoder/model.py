"""The Transformer of 2017, T5 and BART: an encoder, and a decoder that attends to it."""

from dataclasses import dataclass, replace

import numpy as np

from numformer.backend import cross_entropy, cross_entropy_backward
from numformer.checks import check_lengths, check_rows
from numformer.description import MASKED, VECTORS, Column, costs_per_token
from numformer.functional.attention.masks import CAUSAL, AttentionPattern
from numformer.layers import Dropout, Identity, LMHead
from numformer.models.encoder_decoder.config import EncoderDecoderConfig
from numformer.models.transformer import (
    CrossEntropyModel, Encoder, InputEmbedding, LossOfParts, counts_with_experts, embedding_of,
    final_norm_of, for_each_part, n_counted, norm_of, positions_of, stack_of)
from numformer.parameter import normal


class EncoderDecoder(LossOfParts, CrossEntropyModel):
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
    >>> from numformer.models import EncoderDecoderConfig
    >>> sizes = dict(vocab_size=65, context_length=16, n_layers=2, n_heads=2, d_model=16)
    >>> model = EncoderDecoder(EncoderDecoderConfig(**sizes), np.random.default_rng(0))
    >>> inputs, lengths = np.array([[7, 8, 9], [5, 0, 0]]), np.array([3, 1])
    >>> outputs = np.array([[1, 9, 8, 7], [1, 5, 0, 0]])
    >>> model(inputs, lengths, outputs).shape                         # logits, (B, T, V)
    (2, 4, 65)
    """

    config_class = EncoderDecoderConfig

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        self.embedding = embedding_of(c, rng)
        self.input_positions, self.output_positions = positions_of(c, rng), positions_of(c, rng)
        self.input_norm, self.output_norm = (
            norm_of(c) if c.embedding_norm else Identity() for _ in range(2))
        self.dropout = Dropout(c.dropout)
        self.encoder = Encoder(replace(c, n_layers=c.n_encoder_layers or c.n_layers), rng)
        self.blocks = stack_of(c, rng, bidirectional=False, reads_memory=True)
        self.norm = final_norm_of(c)
        self.head = LMHead(self.embedding.weight if c.tied
                           else normal(rng, (c.vocab_size, c.d_model), c.init_std, dtype))

    def forward(self, inputs, lengths, outputs, rng=None, input_mask=None, output_mask=None,
                memory_mask=None):
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
        input_mask, output_mask, memory_mask : ndarray of bool, optional
            True: this query may attend to this key, in the encoder (S, S), in the decoder (T, T)
            and from the decoder to the encoder (T, S); or (B, 1, ...) or (B, H, ...) of these.
            Padding and later outputs stay masked.

        Returns
        -------
        logits : ndarray, shape (B, T, V)
        saved : tuple
        """
        pattern = _memory_pattern(inputs, lengths, outputs)
        memory, saved_memory = self._encode(                          # (B, S, C)
            inputs, replace(pattern, mask=input_mask), rng)
        pattern, causal = replace(pattern, mask=memory_mask), replace(CAUSAL, mask=output_mask)
        x, saved_outputs = self.output.forward(outputs, rng=rng)      # (B, T, C)
        x, saved_blocks = self.blocks.forward(x, memory, causal, pattern, rng)
        x, saved_norm = self.norm.forward(x)
        logits, saved_head = self.head.forward(x)                     # (B, T, V)

        saved = (saved_memory, saved_outputs, saved_blocks, saved_norm, saved_head)
        return logits, saved

    def backward(self, dlogits, saved, dauxiliary=0.0):
        """Add to every parameter's gradient; `dauxiliary` is the gradient of `auxiliary_loss`."""
        saved_memory, saved_outputs, saved_blocks, saved_norm, saved_head = saved

        # logits = head(norm(x))
        dx = self.head.backward(dlogits, saved_head)
        dx = self.norm.backward(dx, saved_norm)

        # x = blocks(output(outputs), memory);  memory = encode(inputs)
        dx, dmemory = self.blocks.backward(dx, saved_blocks, dauxiliary)          # and (B, S, C)
        self.output.backward(dx, saved_outputs)
        self._encode_backward(dmemory, saved_memory, dauxiliary)
        return None                                                   # ids have no gradient

    auxiliary_parts = 1                                               # as of `LossOfParts`

    def loss_counts(self, batch):
        *_, targets = batch
        return counts_with_experts(self.config, targets)

    def loss_parts(self, batch, rng=None):
        """The cross-entropy of a batch and the `auxiliary_loss`; and saved."""
        *inputs, targets = batch
        logits, saved_forward = self.forward(*inputs, rng=rng)
        loss, saved_loss = 0.0, None
        if n_counted(targets):
            loss, saved_loss = cross_entropy(logits, targets, z_loss=self.z_loss,
                                             label_smoothing=self.label_smoothing)

        saved = (saved_forward, saved_loss, logits.shape)
        return (loss, self.auxiliary_loss(saved_forward)), saved

    def loss_backward(self, saved, dloss=1.0):
        saved_forward, saved_loss, shape = saved
        dtargets, dauxiliary = for_each_part(dloss, 2)

        # losses = cross_entropy(forward(*inputs), targets), auxiliary_loss
        dlogits = np.zeros(shape, self.config.dtype)
        if saved_loss is not None:
            dlogits = cross_entropy_backward(dtargets, saved_loss)
        self.backward(dlogits, saved_forward, dauxiliary)

    def auxiliary_loss(self, saved):
        """The sum of the auxiliary losses of all blocks; `saved` is that of `forward`."""
        (_, saved_encoder), _, saved_blocks, *_ = saved
        return (self.encoder.auxiliary_loss(saved_encoder)
                + self.blocks.auxiliary_loss(saved_blocks))

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
        x = self.output_norm(self.output_positions(x, start=len(cache)))
        x, blocks = self.blocks.step(x, cache.blocks, cache.memories,
                                     memory_pattern=AttentionPattern(lengths=cache.lengths))
        cache = EncoderDecoderCache(blocks, cache.memories, cache.lengths)
        return self.head(self.norm(x)), cache

    @property
    def input(self):
        """The layers below the first block of the encoder."""
        return InputEmbedding(self.embedding, self.input_positions, self.input_norm, self.dropout)

    @property
    def output(self):
        """The layers below the first block of the decoder."""
        return InputEmbedding(self.embedding, self.output_positions, self.output_norm,
                              self.dropout)

    def _encode(self, inputs, pattern, rng=None):
        x, saved_inputs = self.input.forward(inputs, rng=rng)         # (B, S, C)
        memory, saved_encoder = self.encoder.forward(x, pattern, rng)

        saved = (saved_inputs, saved_encoder)
        return memory, saved

    def _encode_backward(self, dmemory, saved, dauxiliary):
        saved_inputs, saved_encoder = saved

        # memory = encoder(input(inputs))
        dx = self.encoder.backward(dmemory, saved_encoder, dauxiliary)
        self.input.backward(dx, saved_inputs)

    def costs(self):
        return costs_per_token(self)

    def describe_model(self, reader):
        reader.sizes_of(self.config)
        reader.at_most("S", self.config.context_length)
        logits = "B", "T", reader.letter("V", self.config.vocab_size)
        memory = "B", "S", "C"
        encoder = (*self.input.boxes(reader, memory),
                   *reader.stacks(self.encoder.blocks, shape=memory),
                   *reader.boxes(memory, self.encoder.norm))
        decoder = (*self.output.boxes(reader, VECTORS),
                   *reader.stacks(self.blocks, MASKED), *reader.boxes(VECTORS, self.norm),
                   *reader.boxes(logits, self.head))
        return reader.architecture(Column("inputs (B, S)", encoder),
                                   Column("outputs so far (B, T)", decoder))


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
