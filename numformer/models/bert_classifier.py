"""A classifier of texts on BERT's encoder: what its class token knows, after a few more steps."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from numformer.backend import cross_entropy, cross_entropy_backward
from numformer.layers import ClassPooler, Dropout, Linear
from numformer.models.bert_encoder import BertEncoder, BertEncoderConfig
from numformer.parameter import Layer


@dataclass(frozen=True, kw_only=True)
class BertClassifierConfig(BertEncoderConfig):
    """The switches of a `BertClassifier`: those of `BertEncoderConfig`, and this.

    Parameters
    ----------
    n_classes : int
        How many classes there are.

    Examples
    --------
    >>> BertClassifierConfig(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16, n_classes=0)
    Traceback (most recent call last):
    ValueError: BertClassifierConfig: n_classes=0 must be a whole number, 1 or more.
    """

    WHOLE: ClassVar = (*BertEncoderConfig.WHOLE, "n_classes")

    n_classes: int


class BertClassifier(Layer):
    r"""Scores for the classes of a text, ids (B, T) to (B, n_classes), from its class token.

    .. math:: z = \mathrm{pooler}(\mathrm{trunk}(\mathrm{ids}))\, W + b

    Parameters
    ----------
    config : BertClassifierConfig
    rng : numpy.random.Generator or None
        Draws the initial weights. Those of the trunk, and of the pooler where there is one, may come from a `Bert` afterwards.

    References
    ----------
    Devlin et al. (2019), "BERT", sections 3.2 and 4.1.

    Examples
    --------
    >>> config = BertClassifierConfig(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16, n_classes=3)
    >>> model = BertClassifier(config, np.random.default_rng(0))
    >>> ids, lengths = np.array([[1, 5, 2, 0]]), np.array([3])
    >>> model(ids, lengths).shape
    (1, 3)
    >>> loss, saved = model.loss((ids, lengths, np.array([2])))
    >>> model.loss_backward(saved)
    """

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        self.trunk = BertEncoder(c, rng)
        self.pooler = ClassPooler(c.d_model, rng, c.init_std, dtype)
        self.dropout = Dropout(c.dropout)
        self.classes = Linear(c.d_model, c.n_classes, rng, std=c.init_std, dtype=dtype)

    def forward(self, ids, lengths=None, rng=None):
        """Scores of the classes.

        Parameters
        ----------
        ids : ndarray of int, shape (B, T)
            The class token first.
        lengths : ndarray of int, shape (B,), optional
        rng : numpy.random.Generator, optional

        Returns
        -------
        logits : ndarray, shape (B, n_classes)
        saved : tuple
        """
        x, saved_trunk = self.trunk.forward(ids, None, lengths, rng)  # (B, T, C)
        x, saved_pooler = self.pooler.forward(x)                      # (B, C)
        x, saved_dropout = self.dropout.forward(x, rng)
        logits, saved_classes = self.classes.forward(x)

        saved = (saved_trunk, saved_pooler, saved_dropout, saved_classes)
        return logits, saved

    def backward(self, dlogits, saved):
        saved_trunk, saved_pooler, saved_dropout, saved_classes = saved

        # logits = classes(dropout(pooler(trunk(ids))))
        dx = self.dropout.backward(self.classes.backward(dlogits, saved_classes), saved_dropout)
        return self.trunk.backward(self.pooler.backward(dx, saved_pooler), saved_trunk)

    def loss(self, batch, rng=None):
        """Mean cross-entropy of a batch (ids, lengths, labels), in nats a text; labels are int of shape (B,)."""
        ids, lengths, labels = batch
        logits, saved_forward = self.forward(ids, lengths, rng)
        loss, saved_loss = cross_entropy(logits, labels)

        saved = (saved_forward, saved_loss)
        return loss, saved

    def loss_backward(self, saved, dloss=1.0):
        """Add the gradient of dloss * loss to every parameter."""
        saved_forward, saved_loss = saved

        # loss = cross_entropy(forward(ids, lengths), labels)
        self.backward(cross_entropy_backward(dloss, saved_loss), saved_forward)
