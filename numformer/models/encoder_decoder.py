"""The Transformer of 2017: an encoder reads, a decoder writes, and looks at all that was read before every word."""

import math
from dataclasses import dataclass

import numpy as np

from numformer.functional.pattern import CAUSAL, AttentionPattern
from numformer.layers import Dropout, Embedding, Unembedding
from numformer.models.blocks import cross_block_of, last_norm_of, positions_of, relative_bias_of
from numformer.models.encoder import Encoder
from numformer.models.predictor import Predictor
from numformer.parameter import normal


class EncoderDecoder(Predictor):
    r"""Predict every next token of an output from those before it and from a whole input.

    .. math::

        m = \mathrm{encoder}(\mathrm{embed}(\mathrm{inputs})), \qquad x^0 = \mathrm{embed}(\mathrm{outputs}), \qquad
        x^{\ell+1} = \mathrm{block}_\ell(x^\ell, m), \qquad z = \mathrm{norm}(x^L)\, W^\top

    Inputs and outputs share one vocabulary and one table, which is also the head's (section 3.4 of the paper). T5 and BART are this
    model with other switches: see `EncoderDecoderConfig`.

    Parameters
    ----------
    config : EncoderDecoderConfig
    rng : numpy.random.Generator or None
        Draws the initial weights. None builds the shapes alone, for counting.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 3; Raffel et al. (2020), "Exploring the Limits of Transfer Learning with
    a Unified Text-to-Text Transformer", section 2.1; Lewis et al. (2020), "BART", section 2.1.

    Examples
    --------
    >>> from numformer.models import EncoderDecoderConfig
    >>> config = EncoderDecoderConfig(vocab_size=65, context_length=16, n_layers=2, n_heads=2, d_model=16)
    >>> model = EncoderDecoder(config, np.random.default_rng(0))
    >>> inputs, lengths = np.array([[7, 8, 9], [5, 0, 0]]), np.array([3, 1])
    >>> outputs = np.array([[1, 9, 8, 7], [1, 5, 0, 0]])
    >>> model(inputs, lengths, outputs).shape                         # logits, (B, T, V)
    (2, 4, 65)
    """

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        # A table that is scaled up by sqrt(C) starts that much smaller than a unit normal.
        std, scale = (c.d_model ** -0.5, math.sqrt(c.d_model)) if c.embedding_scale else (c.init_std, 1.0)
        self.embedding = Embedding(c.vocab_size, c.d_model, rng, std, scale, dtype)
        self.input_positions, self.output_positions = positions_of(c, rng), positions_of(c, rng)
        self.dropout = Dropout(c.dropout)
        self.encoder = Encoder(c, rng)
        relative = relative_bias_of(c, rng, bidirectional=False)
        self.blocks = [cross_block_of(c, rng, relative) for _ in range(c.n_layers)]
        self.norm = last_norm_of(c)
        self.head = Unembedding(self.embedding.weight if c.tied else normal(rng, (c.vocab_size, c.d_model), c.init_std, dtype))

    def forward(self, inputs, lengths, outputs, rng=None):
        """Logits for the token after each of the outputs.

        Parameters
        ----------
        inputs : ndarray of int, shape (B, S)
            In 0 .. V-1, padded at their end.
        lengths : ndarray of int, shape (B,)
            How many ids of each input are no padding, 1 .. S.
        outputs : ndarray of int, shape (B, T)
            What was written so far, with the id that begins. Padding at the end disturbs nothing before it.
        rng : numpy.random.Generator, optional
            For dropout; None at inference.

        Returns
        -------
        logits : ndarray, shape (B, T, V)
        saved : tuple

        Raises
        ------
        ValueError, TypeError
            If ids or lengths are out of range or of other shapes, or learned positions end before them.
        """
        pattern = _checked(inputs, lengths, outputs)
        memory, saved_memory = self._read(inputs, pattern, rng)       # (B, S, C)
        x, saved_embedding = self._embed(outputs, self.output_positions, rng)         # (B, T, C)
        saved_blocks = []
        for block in self.blocks:
            x, saved_block = block.forward(x, memory, CAUSAL, pattern, rng)
            saved_blocks.append(saved_block)
        x, saved_norm = self.norm.forward(x)
        logits, saved_head = self.head.forward(x)                     # (B, T, V)

        saved = (saved_memory, saved_embedding, saved_blocks, saved_norm, saved_head)
        return logits, saved

    def backward(self, dlogits, saved):
        saved_memory, saved_embedding, saved_blocks, saved_norm, saved_head = saved

        # logits = head(norm(x))
        dx = self.head.backward(dlogits, saved_head)
        dx = self.norm.backward(dx, saved_norm)

        # x = block(x, memory), L times: the memory was read by every block
        dmemory = 0
        for block, saved_block in zip(reversed(self.blocks), reversed(saved_blocks)):
            dx, dread = block.backward(dx, saved_block)
            dmemory = dread + dmemory

        # x = embed(outputs);  memory = read(inputs)
        self._embed_backward(dx, saved_embedding, self.output_positions)
        self._read_backward(dmemory, saved_memory)
        return None                                                   # ids have no gradient

    def begin(self, inputs, lengths):
        """Read inputs, to write about them: a cache for `step`, with the keys and values of all that was read."""
        pattern = _checked(inputs, lengths)
        memory, _ = self._read(inputs, pattern)
        return EncoderDecoderCache((None,) * len(self.blocks), tuple(block.cross_attention.remember(memory) for block in self.blocks),
                                   pattern.lengths)

    def step(self, ids, cache):
        """Go on writing: logits of new tokens alone.

        Parameters
        ----------
        ids : ndarray of int, shape (B, T)
            The new tokens; at first the id that begins.
        cache : EncoderDecoderCache
            What `begin` or the last call returned.

        Returns
        -------
        logits : ndarray, shape (B, T, V)
        cache : EncoderDecoderCache
            A new value; the old one stays good.
        """
        if getattr(ids, "ndim", 2) != 2 or len(ids) != len(cache.lengths):
            raise ValueError(f"EncoderDecoder: ids must have shape (B, T) with B={len(cache.lengths)} as in the cache, "
                             f"but have {np.shape(ids)}.")
        x, _ = self.embedding.forward(ids)
        x, _ = self.output_positions.forward(x, start=len(cache))
        pattern, after = AttentionPattern(lengths=cache.lengths), []
        for block, past, memory in zip(self.blocks, cache.blocks, cache.memories, strict=True):
            x, past = block.step(x, past, memory, CAUSAL, pattern)
            after.append(past)
        return self.head(self.norm(x)), EncoderDecoderCache(tuple(after), cache.memories, cache.lengths)

    def attention_weights(self, inputs, lengths, outputs):
        """All attention weights, for looking at: three lists with an array for every block.

        Returns
        -------
        encoder, decoder, cross : list of ndarray, shapes (B, H, S, S), (B, H, T, T) and (B, H, T, S)
        """
        pattern = _checked(inputs, lengths, outputs)
        embedded, _ = self._embed(inputs, self.input_positions)
        memory = self.encoder(embedded, pattern)
        x, _ = self._embed(outputs, self.output_positions)
        pairs = []
        for block in self.blocks:
            pairs.append(block.weights(x, memory, CAUSAL, pattern))
            x = block(x, memory, CAUSAL, pattern)
        return (self.encoder.attention_weights(embedded, pattern), *map(list, zip(*pairs)))

    def _embed(self, ids, positions, rng=None):
        x, saved_tokens = self.embedding.forward(ids)
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

    def _read(self, inputs, pattern, rng=None):
        x, saved_embedding = self._embed(inputs, self.input_positions, rng)
        memory, saved_encoder = self.encoder.forward(x, pattern, rng)

        saved = (saved_embedding, saved_encoder)
        return memory, saved

    def _read_backward(self, dmemory, saved):
        saved_embedding, saved_encoder = saved

        # memory = encoder(embed(inputs))
        self._embed_backward(self.encoder.backward(dmemory, saved_encoder), saved_embedding, self.input_positions)


@dataclass(frozen=True)
class EncoderDecoderCache:
    """The keys and values of what was written, and of what was read, for every block; and how long each input is."""

    blocks: tuple
    memories: tuple
    lengths: np.ndarray

    def __len__(self):
        return 0 if self.blocks[0] is None else len(self.blocks[0])

    def rows(self, order):
        """The cache of some of the sequences, or of one several times: what a beam search goes on with; order, array of int."""
        return EncoderDecoderCache(tuple(past and past.rows(order) for past in self.blocks),
                                   tuple(memory.rows(order) for memory in self.memories), self.lengths[order])


def _checked(inputs, lengths, outputs=None):
    """The pattern of who may look at the inputs, whose shapes are checked with those of the outputs."""
    for name, ids in (("inputs", inputs), ("outputs", outputs)):
        if getattr(ids, "ndim", 2) != 2:
            raise ValueError(f"EncoderDecoder: {name} must have shape (B, {'S' if name == 'inputs' else 'T'}), but have {ids.shape}; "
                             f"a single sequence is {name}[None].")
    B, S = np.shape(inputs)
    if outputs is not None and len(outputs) != B:
        raise ValueError(f"EncoderDecoder: {B} inputs and {len(outputs)} outputs came; give an output for each input.")
    lengths = np.asarray(lengths)
    if lengths.shape != (B,) or lengths.dtype.kind not in "iu" or B and not (1 <= lengths.min() and lengths.max() <= S):
        raise ValueError(f"EncoderDecoder: lengths must be B={B} whole numbers in 1 .. S={S}, but are {lengths.tolist()}.")
    return AttentionPattern(lengths=lengths)
