"""BERT, RoBERTa and ModernBERT: predict masked tokens from the context on both sides."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from numformer.backend import cross_entropy, cross_entropy_backward, gelu, gelu_backward
from numformer.checks import check_ids, check_lengths, check_rows, check_whole
from numformer.functional import IGNORE_INDEX
from numformer.functional.attention.layer_patterns import layer_patterns
from numformer.functional.attention.masks import AttentionPattern
from numformer.layers import ClassPooler, Dropout, Embedding, LayerNorm, Linear, LMHead
from numformer.models.transformer import Encoder, EncoderConfig, norm_of, positions_of
from numformer.parameter import Layer, constant


@dataclass(frozen=True, kw_only=True)
class BertEncoderConfig(EncoderConfig):
    """The config of a `BertEncoder`; the defaults are BERT's.

    Parameters
    ----------
    vocab_size : int
        V.
    context_length : int
        Longest sequence in training.
    segments : int
        Number of segment embeddings, such as one for each of two passages; 0 for none.
    positions : "learned", "sinusoidal", "rotary", "alibi" or "none"
        How the model depends on the order of its tokens.
    window : int
        Tokens to each side that local layers attend to; 0 where all layers are global.
    global_every : int
        With a window, one layer in so many is global: 0, 3, 6 ... for 3.
    """

    POSITIONS: ClassVar = ("learned", "sinusoidal", *EncoderConfig.POSITIONS)
    WHOLE: ClassVar = ("vocab_size", "context_length", *EncoderConfig.WHOLE, "global_every")

    vocab_size: int
    context_length: int
    segments: int = 2
    norm_first: bool = False
    positions: str = "learned"
    epsilon: float = 1e-12
    window: int = 0
    global_every: int = 3

    def __post_init__(self):
        super().__post_init__()
        for name in ("segments", "window"):
            check_whole(type(self).__name__, name, getattr(self, name), least=0)


class BertEncoder(Layer):
    r"""The backbone: read a text in both directions at once, ids (B, T) to vectors (B, T, C).

    .. math:: y = \mathrm{encoder}(\mathrm{norm}(E_{\mathrm{ids}} + P + S_{\mathrm{segments}}))

    References
    ----------
    Devlin et al. (2019), "BERT", section 3 and figure 2; the norm is only in the published code.
    Local and global layers: Warner et al. (2024), "ModernBERT", section 2.1.2.
    """

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        self.embedding = Embedding(c.vocab_size, c.d_model, rng, c.init_std, dtype=dtype)
        self.positions = positions_of(c, rng)
        self.segments = None
        if c.segments:
            self.segments = Embedding(c.segments, c.d_model, rng, c.init_std, dtype=dtype)
        self.norm = norm_of(c)
        self.dropout = Dropout(c.dropout)
        self.encoder = Encoder(c, rng)

    def forward(self, ids, segments=None, lengths=None, rng=None):
        """A vector for every token.

        Parameters
        ----------
        ids, segments : ndarray of int, shape (B, T)
            Tokens, and the segment of each; all 0 unless given.
        lengths : ndarray of int, shape (B,), optional
            Tokens of each row without its padding on the right; T unless given.
        rng : numpy.random.Generator, optional
            For dropout.

        Returns
        -------
        y : ndarray, shape (B, T, C)
            Meaningless at padding positions.
        saved : tuple
        """
        check_rows("BertEncoder", "ids", ids)
        if lengths is not None:
            check_lengths("BertEncoder", lengths, *np.shape(ids))
        if segments is not None and np.shape(segments) != np.shape(ids):
            raise ValueError(f"BertEncoder: segments must have the shape of ids, {np.shape(ids)}, "
                             f"but have {np.shape(segments)}.")
        x, saved_embedding = self.embedding.forward(ids)              # (B, T, C)
        x, saved_positions = self.positions.forward(x, start=0)
        saved_segments = None
        if self.segments is not None:
            segments = np.zeros_like(ids) if segments is None else segments
            s, saved_segments = self.segments.forward(segments)       # (B, T, C)
            x = x + s
        x, saved_norm = self.norm.forward(x)
        x, saved_dropout = self.dropout.forward(x, rng)
        y, saved_encoder = self.encoder.forward(x, self.patterns(lengths), rng)

        saved_sum = (saved_embedding, saved_positions, saved_segments)
        saved = (saved_sum, saved_norm, saved_dropout, saved_encoder)
        return y, saved

    def backward(self, dy, saved):
        saved_sum, saved_norm, saved_dropout, saved_encoder = saved
        saved_embedding, saved_positions, saved_segments = saved_sum

        # y = encoder(dropout(norm(x)))
        dx = self.encoder.backward(dy, saved_encoder)
        dx = self.norm.backward(self.dropout.backward(dx, saved_dropout), saved_norm)

        # x = positions(embedding(ids)) + segments(...)
        if self.segments is not None:
            self.segments.backward(dx, saved_segments)
        dx = self.positions.backward(dx, saved_positions)
        return self.embedding.backward(dx, saved_embedding)

    def patterns(self, lengths=None):
        """The attention pattern of every block, a list; `lengths` as in `forward`."""
        c, pattern = self.config, AttentionPattern(lengths=lengths)
        if not c.window:
            return [pattern] * c.n_layers
        return layer_patterns(pattern, c.n_layers, (c.window, c.window), c.global_every)


class MaskedTokenHead(Layer):
    r"""Logits of masked tokens, (..., C) to (..., V), tied to the token embedding E (V, C).

    .. math:: y = \mathrm{norm}(\mathrm{gelu}(x W + b))\, E^\top + c

    `table` is the `Parameter` E.
    """

    def __init__(self, table, rng, std=0.02, epsilon=1e-5):
        self.lm_head = LMHead(table)
        (vocab_size, d_model), dtype = table.data.shape, table.data.dtype
        self.linear = Linear(d_model, d_model, rng, std=std, dtype=dtype)
        self.norm = LayerNorm(d_model, epsilon=epsilon, dtype=dtype)
        self.bias = constant(0, (vocab_size,), dtype)

    def forward(self, x):
        h, saved_linear = self.linear.forward(x)                      # (..., C)
        h, saved_gelu = gelu(h)
        h, saved_norm = self.norm.forward(h)
        y, saved_head = self.lm_head.forward(h)                       # (..., V)

        saved = (saved_linear, saved_gelu, saved_norm, saved_head)
        return y + self.bias.data, saved

    def backward(self, dy, saved):
        saved_linear, saved_gelu, saved_norm, saved_head = saved

        # y = lm_head(h) + bias
        self.bias.grad += dy.sum(axis=tuple(range(dy.ndim - 1)))
        dh = self.lm_head.backward(dy, saved_head)

        # h = norm(gelu(linear(x)))
        dh = gelu_backward(self.norm.backward(dh, saved_norm), saved_gelu)
        return self.linear.backward(dh, saved_linear)


@dataclass(frozen=True, kw_only=True)
class BertConfig(BertEncoderConfig):
    """The config of a `Bert`.

    Parameters
    ----------
    next_sentence : bool
        Whether the model also predicts if the second of two passages follows the first.
    """

    next_sentence: bool = True


class Bert(Layer):
    r"""Pre-training: predict masked tokens, and whether the second passage follows the first.

    .. math:: L = \langle -\log p(\mathrm{token}_t) \rangle_{t\ \mathrm{masked}}
              + \langle -\log p(\mathrm{follows}) \rangle_{\mathrm{rows}}

    References
    ----------
    Devlin et al. (2019), "BERT", section 3.1; the linear maps of pooler and head are only in the
    published code. Liu et al. (2019), "RoBERTa"; Warner et al. (2024), "ModernBERT".

    Examples
    --------
    >>> sizes = dict(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16)
    >>> model = Bert(BertConfig(**sizes), np.random.default_rng(0))
    >>> ids, segments = np.array([[1, 3, 2, 7, 2]]), np.array([[0, 0, 0, 1, 1]])
    >>> targets = np.array([[-100, 5, -100, -100, -100]])             # [CLS] [MASK] [SEP] 7 [SEP]
    >>> loss, saved = model.loss((ids, targets, segments, np.array([5]), np.array([1])))
    >>> model.loss_backward(saved)
    """

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        self.backbone = BertEncoder(c, rng)
        self.pooler, self.next_sentence = None, None
        if c.next_sentence:
            self.pooler = ClassPooler(c.d_model, rng, c.init_std, dtype)
            self.next_sentence = Linear(c.d_model, 2, rng, std=c.init_std, dtype=dtype)
        self.head = MaskedTokenHead(self.backbone.embedding.weight, rng, c.init_std, c.epsilon)

    def forward(self, ids, segments=None, lengths=None, rng=None):
        """A vector for every token, (B, T, C): see `BertEncoder.forward`."""
        return self.backbone.forward(ids, segments, lengths, rng)

    def backward(self, dy, saved):
        return self.backbone.backward(dy, saved)

    def masked_logits(self, ids, segments=None, lengths=None):
        """Logits of the token at every position, (B, T, V)."""
        return self.head(self(ids, segments, lengths))

    def next_sentence_logits(self, ids, segments=None, lengths=None):
        """Logits of "does not follow" and "follows" for the second passage, (B, 2)."""
        if self.pooler is None:
            raise ValueError("Bert: this model was built without next_sentence; set it to True.")
        return self.next_sentence(self.pooler(self(ids, segments, lengths)))

    def loss(self, batch, rng=None):
        """(loss, saved) of a batch (inputs, targets, segments, lengths, follows), in nats.

        Targets are `IGNORE_INDEX` where nothing is masked; `follows`, 1 or 0, is used only
        with `next_sentence`. The loss is a mean over masked tokens, plus a mean over rows.
        """
        inputs, targets, segments, lengths, follows = batch
        check_ids("Bert", "targets", targets, self.config.vocab_size, IGNORE_INDEX)
        if targets.shape != np.shape(inputs):
            raise ValueError(f"Bert: targets must have the shape of inputs, {np.shape(inputs)}, "
                             f"but have {targets.shape}.")
        x, saved_backbone = self.backbone.forward(inputs, segments, lengths, rng)     # (B, T, C)
        masked = targets != IGNORE_INDEX                              # (B, T)
        logits, saved_head = self.head.forward(x[masked])             # (masked tokens, V)
        loss, saved_masked = cross_entropy(logits, targets[masked])
        saved_next = None
        if self.next_sentence is not None:
            pooled, saved_pooler = self.pooler.forward(x)             # (B, C)
            logits, saved_logits = self.next_sentence.forward(pooled)                 # (B, 2)
            loss_next, saved_loss = cross_entropy(logits, follows)
            loss, saved_next = loss + loss_next, (saved_pooler, saved_logits, saved_loss)

        saved = (saved_backbone, masked, x.shape, saved_head, saved_masked, saved_next)
        return loss, saved

    def loss_backward(self, saved, dloss=1.0):
        """Add the gradient of dloss * loss to every parameter."""
        saved_backbone, masked, shape, saved_head, saved_masked, saved_next = saved

        # loss = cross_entropy(head(x[masked])) + ...
        dx_masked = self.head.backward(cross_entropy_backward(dloss, saved_masked), saved_head)
        dx = np.zeros(shape, dx_masked.dtype)                         # (B, T, C)
        dx[masked] = dx_masked

        # loss = ... + cross_entropy(next_sentence(pooler(x)))
        if saved_next is not None:
            saved_pooler, saved_logits, saved_loss = saved_next
            dlogits = cross_entropy_backward(dloss, saved_loss)
            dpooled = self.next_sentence.backward(dlogits, saved_logits)
            dx += self.pooler.backward(dpooled, saved_pooler)
        self.backbone.backward(dx, saved_backbone)


BERT = dict(vocab_size=30522, context_length=512)
ROBERTA = dict(vocab_size=50265, context_length=512, segments=0, epsilon=1e-5, next_sentence=False)
MODERNBERT = dict(vocab_size=50368, context_length=8192, segments=0, epsilon=1e-5, norm_first=True,
                  positions="rotary", rotary_base=160000.0, feedforward="geglu", bias=False,
                  window=64, global_every=3, next_sentence=False)

BERT_CONFIGS = {
    name: BertConfig(**choices, n_layers=L, n_heads=H, d_model=C, d_hidden=F)
    for name, choices, L, H, C, F in (
        # Devlin et al. (2019), section 3: 110 M, 340 M. The encoder with its pooler has 109,482,240
        # and 335,141,888 parameters, like the published checkpoints; with both heads 110,106,428
        # and 336,226,108.
        ("bert-base", BERT, 12, 12, 768, None),
        ("bert-large", BERT, 24, 16, 1024, None),
        # Liu et al. (2019), published code: 125 M, 355 M
        ("roberta-base", ROBERTA, 12, 12, 768, None),
        ("roberta-large", ROBERTA, 24, 16, 1024, None),
        # Warner et al. (2024), table 4 and appendix: 149 M, 395 M. Unlike here, local layers have
        # rotary base 10000 there, and the first block has no norm before its attention.
        ("modernbert-base", MODERNBERT, 22, 12, 768, 1152),
        ("modernbert-large", MODERNBERT, 28, 16, 1024, 2624))}
