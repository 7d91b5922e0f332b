"""BERT and its heirs: guess hidden tokens from both sides, and whether one passage follows another."""

from dataclasses import dataclass

import numpy as np

from numformer.backend import cross_entropy, cross_entropy_backward
from numformer.checks import check_ids, check_number, check_whole
from numformer.functional import IGNORE_INDEX
from numformer.layers import ClassPooler, Linear, MaskedTokenHead
from numformer.models.bert_encoder import BertEncoder, BertEncoderConfig
from numformer.parameter import Layer


@dataclass(frozen=True, kw_only=True)
class BertConfig(BertEncoderConfig):
    """The switches of a `Bert`: those of `BertEncoderConfig`, and what it learns from.

    Parameters
    ----------
    next_sentence : bool
        Whether rows are two passages, and the model says if the second follows the first.
    mask_rate : float in (0, 1)
        How many tokens of a row are to be guessed: see `mask_tokens`.
    dynamic_masks : bool
        Whether masks are made anew in every epoch (RoBERTa), or once (BERT).
    repeat_steps : int
        Over so many first steps, ever fewer batches say a part of the first passage again where the next passage should stand: see
        `Curriculum`. 0 for none.

    Examples
    --------
    >>> BertConfig(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16, mask_rate=1.5)
    Traceback (most recent call last):
    ValueError: BertConfig: mask_rate=1.5 must be a number above 0 and below 1.
    """

    next_sentence: bool = True
    mask_rate: float = 0.15
    dynamic_masks: bool = False
    repeat_steps: int = 0

    def __post_init__(self):
        super().__post_init__()
        check_whole("BertConfig", "repeat_steps", self.repeat_steps, least=0)
        check_number("BertConfig", "mask_rate", self.mask_rate, above=0, below=1)


class Bert(Layer):
    r"""Guess hidden tokens from the tokens on both sides; and, of two passages, whether the second follows the first.

    .. math:: L = \langle -\log p(\text{token}_t) \rangle_{t\ \text{hidden}} + \langle -\log p(\text{follows}) \rangle_{\text{rows}}

    Its `forward` is the trunk's, and what is built on it elsewhere, a classifier or sentence embeddings, begins with those weights.

    Parameters
    ----------
    config : BertConfig
    rng : numpy.random.Generator or None
        Draws the initial weights. None builds the shapes alone, for counting.

    References
    ----------
    Devlin et al. (2019), "BERT: Pre-training of Deep Bidirectional Transformers", section 3; Liu et al. (2019), "RoBERTa"; Warner et al.
    (2024), "Smarter, Better, Faster, Longer" (ModernBERT).

    Examples
    --------
    >>> model = Bert(BertConfig(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16), np.random.default_rng(0))
    >>> ids, segments = np.array([[1, 3, 6, 2, 7, 2]]), np.array([[0, 0, 0, 0, 1, 1]])      # [CLS] [MASK] 6 [SEP] 7 [SEP]
    >>> model.masked_logits(ids, segments).shape
    (1, 6, 9)
    >>> targets = np.array([[-100, 5, -100, -100, -100, -100]])
    >>> loss, saved = model.loss((ids, targets, segments, np.array([6]), np.array([1])))
    >>> model.loss_backward(saved)
    """

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        self.trunk = BertEncoder(c, rng)
        self.pooler = ClassPooler(c.d_model, rng, c.init_std, dtype) if c.next_sentence else None
        self.next_sentence = Linear(c.d_model, 2, rng, std=c.init_std, dtype=dtype) if c.next_sentence else None
        self.head = MaskedTokenHead(self.trunk.embedding.weight, rng, c.init_std, c.epsilon)

    def forward(self, ids, segments=None, lengths=None, rng=None):
        """A vector for every token, (B, T, C): see `BertEncoder.forward`."""
        return self.trunk.forward(ids, segments, lengths, rng)

    def backward(self, dy, saved):
        return self.trunk.backward(dy, saved)

    def masked_logits(self, ids, segments=None, lengths=None):
        """What the model guesses at every place, (B, T, V)."""
        return self.head(self(ids, segments, lengths))

    def next_sentence_logits(self, ids, segments=None, lengths=None):
        """Whether the second passage follows the first, (B, 2): the second number speaks for it."""
        if self.pooler is None:
            raise ValueError("Bert: this model was built without next_sentence, and has no opinion of it.")
        return self.next_sentence(self.pooler(self(ids, segments, lengths)))

    def loss(self, batch, rng=None):
        """Mean cross-entropy at the hidden tokens; with `next_sentence`, plus that of the rows.

        Parameters
        ----------
        batch : (inputs, targets, segments, lengths, follows)
            As a `BertBatch`: int arrays of shapes (B, T), (B, T) with `IGNORE_INDEX` where nothing was hidden, (B, T), (B,), and (B,) with
            1 where the second passage follows and 0 where it does not. A model without `next_sentence` does not look at the last.
        rng : numpy.random.Generator, optional

        Returns
        -------
        loss : scalar, nats
            Tokens and rows each have a mean of their own: where a batch is cut into shards, shards weigh as much as their hidden tokens.
        saved : tuple
        """
        inputs, targets, segments, lengths, follows = batch
        check_ids("Bert", "targets", targets, self.config.vocab_size, IGNORE_INDEX)
        if targets.shape != np.shape(inputs):
            raise ValueError(f"Bert: targets must have the shape of inputs, {np.shape(inputs)}, but have {targets.shape}.")
        x, saved_trunk = self.trunk.forward(inputs, segments, lengths, rng)               # (B, T, C)
        hidden = targets != IGNORE_INDEX                              # (B, T)
        logits, saved_head = self.head.forward(x[hidden])             # (n, V): where nothing is to be guessed, the head need not run
        loss, saved_masked = cross_entropy(logits, targets[hidden])
        saved_next = None
        if self.next_sentence is not None:
            pooled, saved_pooler = self.pooler.forward(x)             # (B, C)
            verdict, saved_verdict = self.next_sentence.forward(pooled)               # (B, 2)
            loss_next, saved_loss = cross_entropy(verdict, follows)
            loss, saved_next = loss + loss_next, (saved_pooler, saved_verdict, saved_loss)

        saved = (saved_trunk, hidden, x.shape, saved_head, saved_masked, saved_next)
        return loss, saved

    def loss_backward(self, saved, dloss=1.0):
        """Add the gradient of dloss * loss to every parameter."""
        saved_trunk, hidden, shape, saved_head, saved_masked, saved_next = saved

        # loss = cross_entropy(head(x[hidden])) + ...
        dhidden = self.head.backward(cross_entropy_backward(dloss, saved_masked), saved_head)
        dx = np.zeros(shape, dhidden.dtype)
        dx[hidden] = dhidden

        # loss = ... + cross_entropy(next_sentence(pooler(x)))
        if saved_next is not None:
            saved_pooler, saved_verdict, saved_loss = saved_next
            dpooled = self.next_sentence.backward(cross_entropy_backward(dloss, saved_loss), saved_verdict)
            dx += self.pooler.backward(dpooled, saved_pooler)
        self.trunk.backward(dx, saved_trunk)

    def attention_weights(self, ids, segments=None, lengths=None):
        """The attention weights of every block, for looking at: a list of (B, H, T, T)."""
        return self.trunk.attention_weights(ids, segments, lengths)


# What each paper chose. BERT's vocabulary is that of its published English checkpoint, RoBERTa's and ModernBERT's likewise.
BERT = dict(vocab_size=30522, context_length=512)
ROBERTA = dict(vocab_size=50265, context_length=512, segments=0, epsilon=1e-5, next_sentence=False, dynamic_masks=True)
MODERNBERT = dict(vocab_size=50368, context_length=8192, segments=0, epsilon=1e-5, norm_first=True, positions="rotary",
                  rotary_base=160000.0, feedforward="geglu", bias=False, window=64, global_every=3, next_sentence=False, mask_rate=0.3,
                  dynamic_masks=True)


def _sizes(choices, n_layers, n_heads, d_model, **more):
    return BertConfig(**choices, n_layers=n_layers, n_heads=n_heads, d_model=d_model, **more)


BERT_CONFIGS = {
    # Devlin et al. (2019), section 3: 110 M and 340 M, to two digits. With pooler and both heads there are 110,106,428 and 336,226,108,
    # of the bare encoder with its pooler 109,482,240 and 335,141,888, as in the published checkpoints.
    "bert-base": _sizes(BERT, 12, 12, 768),
    "bert-large": _sizes(BERT, 24, 16, 1024),
    # Liu et al. (2019); the published code: 125 M and 355 M
    "roberta-base": _sizes(ROBERTA, 12, 12, 768),
    "roberta-large": _sizes(ROBERTA, 24, 16, 1024),
    # Warner et al. (2024), table 4 and appendix: 149 M and 395 M
    "modernbert-base": _sizes(MODERNBERT, 22, 12, 768, d_hidden=1152),
    "modernbert-large": _sizes(MODERNBERT, 28, 16, 1024, d_hidden=2624),
}
