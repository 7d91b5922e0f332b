"""A label for every token: a linear layer on each output of BERT's encoder."""

from dataclasses import dataclass

import numpy as np

from numformer.config import option
from numformer.description import TOKENS, VECTORS, Column, costs_per_token
from numformer.layers import Dropout, Linear
from numformer.models.bert.encoder import BertEncoder, BertEncoderConfig
from numformer.models.bert.prediction_head import head_of
from numformer.models.transformer import CrossEntropyModel


@dataclass(frozen=True, kw_only=True)
class BertTokenClassifierConfig(BertEncoderConfig):
    """The config of a `BertTokenClassifier`."""

    n_classes: int = option("Number of labels.")
    prediction_head: bool = option(
        "Whether a `PredictionHead` is between the encoder and the logits, as in ModernBERT.",
        False)


class BertTokenClassifier(CrossEntropyModel):
    r"""Logits of the labels of every token, ids (B, T) to (B, T, n_classes).

    .. math:: z_t = x_t W + b, \qquad x = \mathrm{head}(\mathrm{backbone}(\mathrm{ids}))

    .. math:: \bar{x}_t = \bar{z}_t W^\top, \qquad
              \bar{W} = \sum_t x_t^\top \bar{z}_t, \qquad \bar{b} = \sum_t \bar{z}_t

    A batch of its loss is (ids, lengths, segments, targets): targets are int of shape (B, T),
    `IGNORE_INDEX` for tokens without a label, such as special tokens and padding. The loss is the
    mean over labelled tokens.

    Parameters
    ----------
    config : BertTokenClassifierConfig
    rng : numpy.random.Generator or None
        Draws the initial weights; see `load_pretrained_backbone` for those of a `Bert`.

    References
    ----------
    Devlin et al. (2019), "BERT", section 5.3 and figure 4 (d).

    Examples
    --------
    >>> sizes = dict(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16)
    >>> config = BertTokenClassifierConfig(**sizes, n_classes=3)
    >>> model = BertTokenClassifier(config, np.random.default_rng(0))
    >>> ids, lengths = np.array([[1, 5, 2, 0]]), np.array([3])
    >>> model(ids, lengths).shape
    (1, 4, 3)
    >>> targets = np.array([[-100, 2, -100, -100]])
    >>> loss, saved = model.loss((ids, lengths, np.zeros_like(ids), targets))
    >>> model.loss_backward(saved)
    """

    config_class = BertTokenClassifierConfig

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        self.backbone = BertEncoder(c, rng)
        self.head = head_of(c, rng)
        self.dropout = Dropout(c.dropout)
        self.classes = Linear(c.d_model, c.n_classes, rng, std=c.init_std, dtype=dtype)

    def forward(self, ids, lengths=None, segments=None, rng=None, mask=None):
        """Logits of the labels.

        Parameters
        ----------
        ids, segments : ndarray of int, shape (B, T)
            Tokens, and the segment of each; all 0 unless given.
        lengths : ndarray of int, shape (B,), optional
            Tokens of each row without its padding; T unless given.
        rng : numpy.random.Generator, optional
            For dropout.
        mask : ndarray of bool, shape (T, T), (B, 1, T, T) or (B, H, T, T), optional
            True: this query may attend to this key, as far as its length allows.

        Returns
        -------
        logits : ndarray, shape (B, T, n_classes)
            Meaningless at padding positions.
        saved : tuple

        Raises
        ------
        ValueError, TypeError
            As `BertEncoder.forward`.
        """
        x, saved_backbone = self.backbone.forward(ids, segments, lengths, rng, mask)  # (B, T, C)
        x, saved_head = self.head.forward(x)
        x, saved_dropout = self.dropout.forward(x, rng)
        logits, saved_classes = self.classes.forward(x)               # (B, T, n_classes)

        saved = (saved_backbone, saved_head, saved_dropout, saved_classes)
        return logits, saved

    def backward(self, dlogits, saved):
        saved_backbone, saved_head, saved_dropout, saved_classes = saved

        # logits = classes(dropout(head(backbone(ids))))
        dx = self.classes.backward(dlogits, saved_classes)
        dx = self.head.backward(self.dropout.backward(dx, saved_dropout), saved_head)
        return self.backbone.backward(dx, saved_backbone)

    def costs(self):
        return costs_per_token(self)

    def describe_model(self, reader):
        return reader.architecture(Column(TOKENS, (
            *self.backbone.describe_features(reader), *reader.boxes(VECTORS, self.head),
            *reader.boxes(("B", "T", self.config.n_classes), self.classes, name="Linear head"))))
