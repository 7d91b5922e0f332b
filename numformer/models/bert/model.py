"""BERT, RoBERTa and ModernBERT: predict masked tokens from the context on both sides."""

from dataclasses import dataclass

import numpy as np

from numformer.backend import cross_entropy, cross_entropy_backward
from numformer.checks import check_ids
from numformer.config import option
from numformer.description import TOKENS, Column, Description, Row, costs_per_token
from numformer.functional import IGNORE_INDEX
from numformer.layers import ClassPooler, Linear, LMHead
from numformer.models.bert.encoder import BertEncoder, BertEncoderConfig
from numformer.models.bert.prediction_head import PredictionHead
from numformer.models.transformer import LossOfParts, for_each_part, n_counted
from numformer.parameter import constant


class MaskedTokenHead(PredictionHead):
    r"""Logits of masked tokens, (..., C) to (..., V), tied to the token embedding E (V, C).

    .. math:: y = \mathrm{norm}(\mathrm{gelu}(x W + b))\, E^\top + c

    It is a `PredictionHead` below the logits. `table` is the `Parameter` E. Without `bias`, the
    linear map and the norm have none; the logits always have theirs, c.
    """

    def __init__(self, table, rng, std=0.02, epsilon=1e-5, bias=True):
        self.lm_head = LMHead(table)
        (vocab_size, d_model), dtype = table.data.shape, table.data.dtype
        super().__init__(d_model, rng, std, epsilon, bias, dtype)
        self.bias = constant(0, (vocab_size,), dtype)

    def forward(self, x):
        h, saved_vectors = super().forward(x)                         # (..., C)
        y, saved_head = self.lm_head.forward(h)                       # (..., V)

        saved = (saved_vectors, saved_head)
        return y + self.bias.data, saved

    def backward(self, dy, saved):
        saved_vectors, saved_head = saved

        # y = lm_head(h) + bias
        self.bias.grad += dy.sum(axis=tuple(range(dy.ndim - 1)))
        dh = self.lm_head.backward(dy, saved_head)

        # h = norm(gelu(linear(x)))
        return super().backward(dh, saved_vectors)

    def describe(self):
        return Description("Masked-token head", self.lm_head.describe().sizes, (
            r"da = dy\,E", r"dE = dy^\top a", r"db = \Sigma\,dy",
            r"dx = \mathrm{norm}'(da)\,f'(h)\,W^\top"))


@dataclass(frozen=True, kw_only=True)
class BertConfig(BertEncoderConfig):
    """The config of a `Bert`."""

    next_sentence: bool = option(
        "Whether the model also predicts if the second of two passages follows the first.", True)
    head_bias: bool = option(
        "Whether the linear map and the norm of the masked-token head have a bias; its logits "
        "always have one.", True)


class Bert(LossOfParts):
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

    config_class = BertConfig

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        self.backbone = BertEncoder(c, rng)
        self.pooler, self.next_sentence = None, None
        if c.next_sentence:
            self.pooler = ClassPooler(c.d_model, rng, c.init_std, dtype)
            self.next_sentence = Linear(c.d_model, 2, rng, std=c.init_std, dtype=dtype)
        self.head = MaskedTokenHead(self.backbone.embedding.weight, rng, c.init_std, c.epsilon,
                                    c.head_bias)

    def forward(self, ids, segments=None, lengths=None, rng=None, mask=None):
        """A vector for every token, (B, T, C): see `BertEncoder.forward`."""
        return self.backbone.forward(ids, segments, lengths, rng, mask)

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

    def loss_counts(self, batch):
        """The number of masked tokens; with `next_sentence`, also of rows with a label."""
        _, targets, _, _, follows = batch
        masked = n_counted(targets)
        return (masked,) if self.next_sentence is None else (masked, n_counted(follows))

    def loss_parts(self, batch, rng=None):
        """Means over masked tokens and, with `next_sentence`, over rows, in nats; and saved.

        Parameters
        ----------
        batch : (inputs, targets, segments, lengths, follows)
            Targets are `IGNORE_INDEX` where nothing is masked. `follows` is 1, 0, or
            `IGNORE_INDEX` where it is not known; it is used only with `next_sentence`.
        rng : numpy.random.Generator, optional
            For dropout.
        """
        inputs, targets, segments, lengths, follows = batch
        check_ids("Bert", "targets", targets, self.config.vocab_size, IGNORE_INDEX)
        if targets.shape != np.shape(inputs):
            raise ValueError(f"Bert: targets must have the shape of inputs, {np.shape(inputs)}, "
                             f"but have {targets.shape}.")
        x, saved_backbone = self.backbone.forward(inputs, segments, lengths, rng)     # (B, T, C)
        masked = targets != IGNORE_INDEX                              # (B, T)
        counts, saved_masked, saved_next = self.loss_counts(batch), None, None
        losses = [0.0] * len(counts)
        if masked.any():
            logits, saved_head = self.head.forward(x[masked])         # (masked tokens, V)
            losses[0], saved_loss = cross_entropy(logits, targets[masked])
            saved_masked = saved_head, saved_loss
        if any(counts[1:]):
            pooled, saved_pooler = self.pooler.forward(x)             # (B, C)
            logits, saved_logits = self.next_sentence.forward(pooled)                 # (B, 2)
            losses[1], saved_loss = cross_entropy(logits, follows)
            saved_next = saved_pooler, saved_logits, saved_loss

        saved = (saved_backbone, masked, (x.shape, x.real.dtype), saved_masked, saved_next)
        return losses, saved

    def loss_backward(self, saved, dloss=1.0):
        """Add the gradient of dloss * loss to every parameter; `dloss` as in `LossOfParts`."""
        saved_backbone, masked, of_x, saved_masked, saved_next = saved
        dmasked, *dnext = for_each_part(dloss, 1 if self.next_sentence is None else 2)
        dx = np.zeros(*of_x)                                          # (B, T, C)

        # losses[0] = cross_entropy(head(x[masked]))
        if saved_masked is not None:
            saved_head, saved_loss = saved_masked
            dx[masked] = self.head.backward(cross_entropy_backward(dmasked, saved_loss), saved_head)

        # losses[1] = cross_entropy(next_sentence(pooler(x)))
        if saved_next is not None:
            saved_pooler, saved_logits, saved_loss = saved_next
            dlogits = cross_entropy_backward(*dnext, saved_loss)
            dpooled = self.next_sentence.backward(dlogits, saved_logits)
            dx += self.pooler.backward(dpooled, saved_pooler)
        self.backbone.backward(dx, saved_backbone)

    def evaluation_parts(self, batch):
        """The same losses without dropout."""
        return self.loss_parts(batch)[0]

    def costs(self):
        return costs_per_token(self)

    def describe_model(self, reader):
        parts = self.backbone.describe_features(reader)
        heads = reader.boxes(("B", "T", "V"), self.head)
        if self.next_sentence is not None:
            pairs = (*reader.boxes(("B", "C"), self.pooler),
                     *reader.boxes(("B", 2), self.next_sentence, name="Next-sentence head"))
            heads = Row((heads, pairs)),
        return reader.architecture(Column(TOKENS, (*parts, *heads)))


BERT = dict(vocab_size=30522, context_length=512)
ROBERTA = dict(vocab_size=50265, context_length=512, segments=0, epsilon=1e-5, next_sentence=False)
MODERNBERT = dict(vocab_size=50368, context_length=8192, segments=0, epsilon=1e-5, norm_first=True,
                  first_attention_norm=False, positions="rotary", rotary_base=160000.0,
                  local_rotary_base=10000.0, feedforward="geglu", bias=False, head_bias=False,
                  sliding_window=65,
                  layer_types="full_attention,sliding_attention,sliding_attention",
                  next_sentence=False)

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
        # Warner et al. (2024), table 4 and appendix: 149 M, 395 M. Like the published checkpoints,
        # 149,655,232 and 395,881,664 with the masked-token head.
        ("modernbert-base", MODERNBERT, 22, 12, 768, 1152),
        ("modernbert-large", MODERNBERT, 28, 16, 1024, 2624))}
