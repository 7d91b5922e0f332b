"""The decoder-only Transformer: one model whose switches cover 2017's choices, GPT-2's and LLaMA's."""

import math
from dataclasses import dataclass

import numpy as np

from numformer.backend import cross_entropy, cross_entropy_backward
from numformer.functional.pattern import CAUSAL, AttentionPattern
from numformer.layers import Dropout, Embedding, MixtureOfExperts, NGramEmbedding, Unembedding
from numformer.layers.token_step import TokenStep
from numformer.models.blocks import GATED, block_of, feedforward_of, last_norm_of, positions_of
from numformer.parameter import Layer, normal


class Decoder(Layer):
    r"""Predict every next token from the tokens before it.

    .. math::

        x^0 = \mathrm{embedding}(\mathrm{ids}) + \mathrm{positions}, \qquad x^{\ell+1} = \mathrm{block}_\ell(x^\ell), \qquad
        z = \mathrm{norm}(x^L)\, W^\top

    as GPT-2 has it. With rotary positions or ALiBi the positions go into every block's attention instead; with the norm after
    each sum, as in 2017, there is none before the head.

    Parameters
    ----------
    config : DecoderConfig
    rng : numpy.random.Generator or None
        Draws the initial weights. None builds the shapes alone, for counting.

    References
    ----------
    Radford et al. (2019), "Language Models are Unsupervised Multitask Learners", section 2.3; Vaswani et al. (2017),
    section 3; Touvron et al. (2023), "LLaMA", section 2.2.

    Examples
    --------
    >>> from numformer.models import DecoderConfig
    >>> config = DecoderConfig(vocab_size=65, context_length=8, n_layers=2, n_heads=2, d_model=16)
    >>> model = Decoder(config, np.random.default_rng(0))
    >>> ids = np.array([[1, 2, 3, 4]])
    >>> model(ids).shape                                              # logits, (B, T, V)
    (1, 4, 65)
    >>> loss, saved = model.loss((ids[:, :-1], ids[:, 1:]))           # each token is the target of the one before
    >>> model.loss_backward(saved)
    >>> model.embedding.weight.grad.shape
    (65, 16)
    """

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        # The 2017 model scales its embedding up by sqrt(C), so its table starts that much smaller than a unit normal.
        std, scale = (c.d_model ** -0.5, math.sqrt(c.d_model)) if c.embedding_scale else (c.init_std, 1.0)
        self.embedding = Embedding(c.vocab_size, c.d_model, rng, std, scale, dtype)
        self.ngrams = (NGramEmbedding(c.vocab_size, c.d_model, c.ngrams, c.ngram_rows, rng, c.init_std, dtype) if c.ngrams > 1
                       else None)
        self.positions = positions_of(c, rng)
        self.dropout = Dropout(c.dropout)
        self.blocks = [block_of(c, rng, feedforward_of if c.n_experts == 1 else _experts_of) for _ in range(c.n_layers)]
        self.norm = last_norm_of(c)
        self.head = Unembedding(self.embedding.weight if c.tied
                                else normal(rng, (c.vocab_size, c.d_model), c.init_std, dtype))

    def forward(self, ids, rng=None):
        """Logits for the token after each.

        Parameters
        ----------
        ids : ndarray of int, shape (B, T)
            In 0 .. V-1. With learned positions T is at most the context length.
        rng : numpy.random.Generator, optional
            For dropout; None at inference.

        Returns
        -------
        logits : ndarray, shape (B, T, V)
        saved : tuple

        Raises
        ------
        ValueError, TypeError
            If ids are not integers of two axes in that range, or T is too long.
        """
        _check_two_axes(ids)
        x, saved_embedding = self._embed(ids)                         # (B, T, C)
        x, saved_positions = self.positions.forward(x, start=0)
        x, saved_dropout = self.dropout.forward(x, rng)
        saved_blocks = []
        for block in self.blocks:
            x, saved_block = block.forward(x, CAUSAL, rng)
            saved_blocks.append(saved_block)
        x, saved_norm = self.norm.forward(x)
        logits, saved_head = self.head.forward(x)                     # (B, T, V)

        saved = (saved_embedding, saved_positions, saved_dropout, saved_blocks, saved_norm, saved_head)
        return logits, saved

    def backward(self, dlogits, saved, dauxiliary=0.0):
        saved_embedding, saved_positions, saved_dropout, saved_blocks, saved_norm, saved_head = saved

        # logits = head(norm(x))
        dx = self.head.backward(dlogits, saved_head)
        dx = self.norm.backward(dx, saved_norm)

        # x = block(x), L times
        for block, saved_block in zip(reversed(self.blocks), reversed(saved_blocks)):
            dx = block.backward(dx, saved_block, dauxiliary)

        # x = dropout(positions(embedding(ids) + ngrams(ids)))
        dx = self.dropout.backward(dx, saved_dropout)
        dx = self.positions.backward(dx, saved_positions)
        saved_tokens, saved_ngrams = saved_embedding
        if self.ngrams is not None:
            self.ngrams.backward(dx, saved_ngrams)
        return self.embedding.backward(dx, saved_tokens)

    def _embed(self, ids, before=None, filled_up=False):
        """The sum of the vectors of each token, and of the n-grams that end with it; what fills up is part of none."""
        x, saved_tokens = self.embedding.forward(ids)
        if self.ngrams is None:
            return x, (saved_tokens, None)
        y, saved_ngrams = self.ngrams.forward(np.where(filled_up, -1, ids), before)
        return x + y, (saved_tokens, saved_ngrams)

    def loss(self, batch, rng=None):
        """Mean cross-entropy of a batch, and what its experts, if there are any, are asked for beside: see `MixtureOfExperts`.

        Parameters
        ----------
        batch : pair (inputs, targets) of ndarray of int, shape (B, T)
        rng : numpy.random.Generator, optional

        Returns
        -------
        loss : scalar, nats a target
        saved : tuple
        """
        inputs, targets = batch
        logits, saved_forward = self.forward(inputs, rng)
        loss, saved_loss = cross_entropy(logits, targets, label_smoothing=self.config.label_smoothing, z_loss=self.config.z_loss)
        loss = loss + self.auxiliary_loss(saved_forward)

        saved = (saved_forward, saved_loss)
        return loss, saved

    def loss_backward(self, saved, dloss=1.0):
        """Add the gradient of dloss * loss to every parameter."""
        saved_forward, saved_loss = saved

        # loss = cross_entropy(forward(inputs), targets) + auxiliary_loss
        self.backward(cross_entropy_backward(dloss, saved_loss), saved_forward, dauxiliary=dloss)

    def evaluation_loss(self, batch):
        """Mean cross-entropy of a batch alone: no label smoothing, no z-loss, nothing that experts are asked for. Inference only."""
        inputs, targets = batch
        return cross_entropy(self(inputs), targets)[0]

    def auxiliary_loss(self, saved):
        """The sum of the blocks' auxiliary losses in the forward that saved; 0 where no block has experts."""
        *_, saved_blocks, _, _ = saved
        return sum(block.auxiliary_loss(saved_block) for block, saved_block in zip(self.blocks, saved_blocks))

    def step(self, ids, cache=None, pads=None):
        """Continue sequences: logits of new tokens alone, given the keys and values of the tokens before.

        Parameters
        ----------
        ids : ndarray of int, shape (B, T)
            The new tokens, any number of them.
        cache : DecoderCache, optional
            What the last call returned; None at the start.
        pads : ndarray of int, shape (B,), optional
            At the start: how many of the first tokens of each sequence only fill up the row. Nobody attends to them.

        Returns
        -------
        logits : ndarray, shape (B, T, V)
        cache : DecoderCache
            A new value; the old one stays good.
        """
        _check_two_axes(ids)
        blocks, pads = (None, pads) if cache is None else (cache.blocks, cache.pads)
        if blocks is not None and (len(blocks) != len(self.blocks) or any(len(past.k) != len(ids) for past in blocks)):
            raise ValueError(f"Decoder: the cache must hold keys and values of {len(self.blocks)} blocks for B={len(ids)} sequences; "
                             "begin with cache=None.")
        start, before = (0, None) if cache is None else (len(cache), cache.last)
        pattern, filled_up = CAUSAL, False
        if pads is not None:                                          # what fills up is a document of its own
            tokens = np.arange(start + ids.shape[1]) >= pads[:, None]                             # (B, S)
            pattern, filled_up = AttentionPattern(causal=True, documents=tokens.astype(int)), ~tokens[:, start:]
        x, _ = self.positions.forward(self._embed(ids, before, filled_up)[0], start=start if pads is None else start - pads)
        compiled = None if blocks is None or x.size > x.shape[-1] or pattern is not CAUSAL else self._compiled(cache)
        if compiled is not None:
            logits, after = compiled(x, blocks)
        else:
            after = []
            for block, past in zip(self.blocks, blocks or [None] * len(self.blocks), strict=True):
                x, past = block.step(x, past, pattern)
                after.append(past)
            logits = self.head(self.norm(x))
        last = None
        if self.ngrams is not None:
            last = np.where(filled_up, -1, ids)
            last = (last if before is None else np.concatenate([before, last], axis=1))[:, -self.ngrams.reach:]
        return logits, DecoderCache(tuple(after), pads, last, compiled)

    def _compiled(self, cache):
        """The compiled way of one token, kept from step to step; None where there is none."""
        parts = self.blocks, self.norm, self.head
        return cache.compiled if cache.compiled and cache.compiled.is_of(*parts) else TokenStep.of(*parts)

    def attention_weights(self, ids):
        """The attention weights of every block on `ids`, for looking at: a list of (B, H, T, T)."""
        _check_two_axes(ids)
        x, _ = self.positions.forward(self._embed(ids)[0], start=0)
        weights = []
        for block in self.blocks:
            weights.append(block.weights(x, CAUSAL))
            x = block(x, CAUSAL)
        return weights


@dataclass(frozen=True)
class DecoderCache:
    """The keys and values of every block; how many positions of each sequence only fill up; the last tokens, where n-grams matter;
    and the compiled way of one token."""

    blocks: tuple
    pads: np.ndarray | None = None
    last: np.ndarray | None = None
    compiled: TokenStep | None = None

    def __len__(self):
        return len(self.blocks[0]) if self.blocks else 0


def _experts_of(config, initial):
    c = config
    return MixtureOfExperts(c.d_model, c.hidden_width, c.n_experts, c.experts_per_token, GATED.get(c.feedforward, c.feedforward),
                            gated=c.feedforward in GATED, gates_over=c.gates_over, capacity_factor=c.capacity_factor,
                            balance_weight=c.balance_weight, z_weight=c.router_z_weight, **initial)


def _check_two_axes(ids):
    if getattr(ids, "ndim", 2) != 2:
        raise ValueError(f"Decoder: ids must have shape (B, T), but have {ids.shape}; a single sequence is ids[None].")
