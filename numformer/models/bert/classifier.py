"""A text classifier fine-tuned from BERT: a pooler and a linear layer on its encoder."""

from dataclasses import dataclass

import numpy as np

from numformer.config import option
from numformer.description import TOKENS, Column, costs_per_token
from numformer.layers import ClassPooler, Dropout, Linear
from numformer.layers.pooling import POOLER_ACTIVATIONS
from numformer.models.bert.encoder import BertEncoder, BertEncoderConfig
from numformer.models.bert.prediction_head import PooledHead
from numformer.models.transformer import CrossEntropyModel, real_positions


@dataclass(frozen=True, kw_only=True)
class BertClassifierConfig(BertEncoderConfig):
    """The config of a `BertClassifier`.

    Examples
    --------
    >>> sizes = dict(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16)
    >>> BertClassifierConfig(**sizes, n_classes=0)
    Traceback (most recent call last):
    ValueError: BertClassifierConfig: n_classes=0 must be a whole number, 1 or more.
    >>> BertClassifierConfig(**sizes, n_classes=2, pooling="mean")  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ValueError: BertClassifierConfig: pooler_kind='tanh' maps the class token's vector, but
                pooling='mean'; use pooler_kind='head'.
    """

    n_classes: int = option("Number of classes.")
    pooler_kind: str = option(
        "How vectors become one for the text: the class token's, mapped and then tanh (BERT) or "
        "relu (DistilBERT), see `ClassPooler`; or a `PooledHead` (head; ModernBERT).", "tanh",
        choices=(*POOLER_ACTIVATIONS, "head"))
    pooling: str = option(
        "What pooler_kind='head' maps: the class token's vector, or the mean over the text.",
        "class", choices=("class", "mean"))

    def __post_init__(self):
        super().__post_init__()
        if self.pooling != "class" and self.pooler_kind != "head":
            raise ValueError(f"{type(self).__name__}: pooler_kind={self.pooler_kind!r} maps the "
                             f"class token's vector, but pooling={self.pooling!r}; use "
                             "pooler_kind='head'.")


class BertClassifier(CrossEntropyModel):
    r"""Logits of the classes of a text, ids (B, T) to (B, n_classes), from its first token.

    .. math:: z = \mathrm{pooler}(\mathrm{backbone}(\mathrm{ids}))\, W + b

    A batch of its loss is (ids, lengths, labels), labels int of shape (B,); or, for pairs of texts
    such as a premise and a hypothesis, (ids, lengths, segments, labels).

    Parameters
    ----------
    config : BertClassifierConfig
    rng : numpy.random.Generator or None
        Draws the initial weights; see `load_pretrained_backbone` for those of a `Bert`.

    References
    ----------
    Devlin et al. (2019), "BERT", sections 3.2 and 4.1.

    Examples
    --------
    >>> sizes = dict(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16)
    >>> config = BertClassifierConfig(**sizes, n_classes=3)
    >>> model = BertClassifier(config, np.random.default_rng(0))
    >>> ids, lengths = np.array([[1, 5, 2, 0]]), np.array([3])
    >>> model(ids, lengths).shape
    (1, 3)
    >>> loss, saved = model.loss((ids, lengths, np.array([2])))
    >>> model.loss_backward(saved)
    """

    config_class = BertClassifierConfig

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        self.backbone = BertEncoder(c, rng)
        if c.pooler_kind == "head":
            self.pooler = PooledHead(c.pooling, c.d_model, rng, c.init_std, c.epsilon, c.bias,
                                     dtype)
        else:
            self.pooler = ClassPooler(c.d_model, rng, c.init_std, dtype, c.pooler_kind)
        self.dropout = Dropout(c.dropout)
        self.classes = Linear(c.d_model, c.n_classes, rng, std=c.init_std, dtype=dtype)

    def forward(self, ids, lengths=None, segments=None, rng=None, mask=None):
        """Logits of the classes.

        Parameters
        ----------
        ids : ndarray of int, shape (B, T)
            The class token first.
        lengths : ndarray of int, shape (B,), optional
            Tokens of each row without its padding; T unless given.
        segments : ndarray of int, shape (B, T), optional
            The segment of each token; all 0 unless given.
        rng : numpy.random.Generator, optional
            For dropout.
        mask : ndarray of bool, shape (T, T), (B, 1, T, T) or (B, H, T, T), optional
            True: this query may attend to this key, as far as its length allows.

        Returns
        -------
        logits : ndarray, shape (B, n_classes)
        saved : tuple
        """
        x, saved_backbone = self.backbone.forward(ids, segments, lengths, rng, mask)  # (B, T, C)
        real = real_positions(lengths, ids.shape[1])                  # (B, T), or None
        x, saved_pooler = self.pooler.forward(x, real)                # (B, C)
        x, saved_dropout = self.dropout.forward(x, rng)
        logits, saved_classes = self.classes.forward(x)

        saved = (saved_backbone, saved_pooler, saved_dropout, saved_classes)
        return logits, saved

    def backward(self, dlogits, saved):
        saved_backbone, saved_pooler, saved_dropout, saved_classes = saved

        # logits = classes(dropout(pooler(backbone(ids))))
        dx = self.dropout.backward(self.classes.backward(dlogits, saved_classes), saved_dropout)
        return self.backbone.backward(self.pooler.backward(dx, saved_pooler), saved_backbone)

    def costs(self):
        return costs_per_token(self)

    def describe_head(self, reader):
        """The parts above the backbone."""
        return (*reader.boxes(("B", "C"), self.pooler), *reader.boxes(
            ("B", self.config.n_classes), self.classes, name="Linear head"))

    def describe_model(self, reader):
        return reader.architecture(Column(
            TOKENS, (*self.backbone.describe_features(reader), *self.describe_head(reader))))
