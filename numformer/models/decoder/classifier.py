"""GPT-1's way: a text classifier fine-tuned from a decoder, a linear layer on its last token."""

from dataclasses import dataclass

import numpy as np

from numformer.backend import cross_entropy, cross_entropy_backward
from numformer.checks import check_lengths, check_rows
from numformer.config import option
from numformer.description import OF_TOKEN, TOKENS, Column, Row, costs_per_token
from numformer.functional import IGNORE_INDEX
from numformer.layers import Linear
from numformer.layers.linear import head_loss, head_loss_backward
from numformer.models.decoder.config import DecoderConfig
from numformer.models.decoder.model import Decoder
from numformer.models.transformer import (
    CrossEntropyModel, LossOfParts, for_each_part, n_counted)


@dataclass(frozen=True, kw_only=True)
class DecoderClassifierConfig(DecoderConfig):
    """The config of a `DecoderClassifier`: that of its decoder, and the classes.

    Examples
    --------
    >>> sizes = dict(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16)
    >>> DecoderClassifierConfig(**sizes, n_classes=0)
    Traceback (most recent call last):
    ValueError: DecoderClassifierConfig: n_classes=0 must be a whole number, 1 or more.
    """

    n_classes: int = option("Number of classes.")


class DecoderClassifier(LossOfParts, CrossEntropyModel):
    r"""Logits of the classes of a text, ids (B, T) to (B, n_classes), from its last token.

    Only the last token of a text has read all of it: no token attends to a later one.

    .. math:: z_b = h_{b, n_b} W + b, \qquad h = \mathrm{decoder}(\mathrm{ids})

    where :math:`n_b` is the last token of text b before its padding. The loss is that of the
    classes, plus `lm_weight` times that of predicting every next token of the text:

    .. math:: L = L_{\mathrm{classes}} + \lambda L_{\mathrm{next}}, \qquad
        \bar h_{b, n_b} = \bar z_b W^\top + \lambda \bar h_{b, n_b}^{\mathrm{next}}, \qquad
        \bar h_{b, t} = \lambda \bar h_{b, t}^{\mathrm{next}}\ (t \ne n_b)

    A batch of its loss is (ids, lengths, labels), labels int of shape (B,). `lm_weight` is an
    attribute, 0 unless set; it affects the training loss only.

    Parameters
    ----------
    config : DecoderClassifierConfig
    rng : numpy.random.Generator or None
        Draws the initial weights; see `load_pretrained_backbone` for those of a `Decoder`.

    References
    ----------
    Radford et al. (2018), "Improving Language Understanding by Generative Pre-Training",
    section 3.2: eq. 3 for the logits, eq. 5 for the sum of both losses; section 4.1 for
    :math:`\lambda = 0.5`.

    Examples
    --------
    >>> sizes = dict(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16)
    >>> config = DecoderClassifierConfig(**sizes, n_classes=3)
    >>> model = DecoderClassifier(config, np.random.default_rng(0))
    >>> ids, lengths = np.array([[1, 5, 2, 0]]), np.array([3])
    >>> model(ids, lengths).shape
    (1, 3)
    >>> model.lm_weight = 0.5
    >>> loss, saved = model.loss((ids, lengths, np.array([2])))
    >>> model.loss_backward(saved)
    """

    config_class = DecoderClassifierConfig

    lm_weight = 0.0

    def __init__(self, config, rng):
        c = config
        self.config = c
        self.backbone = Decoder(c, rng)
        self.classes = Linear(c.d_model, c.n_classes, rng, std=c.init_std, dtype=np.dtype(c.dtype))

    def forward(self, ids, lengths=None, rng=None):
        """Logits of the classes.

        Parameters
        ----------
        ids : ndarray of int, shape (B, T)
        lengths : ndarray of int, shape (B,), optional
            Tokens of each row without its padding, which comes last; T unless given.
        rng : numpy.random.Generator, optional
            For dropout.

        Returns
        -------
        logits : ndarray, shape (B, n_classes)
        saved : tuple
        """
        last = _last_tokens(ids, lengths)
        h, saved_backbone = self.backbone.features(ids, rng)          # (B, T, C)
        logits, saved_classes = self.classes.forward(h[np.arange(len(ids)), last])

        saved = (h, last, saved_backbone, saved_classes)              # the loss reads h, too
        return logits, saved

    def backward(self, dlogits, saved, dnext=None, dauxiliary=0.0):
        """The gradient of `loss`, with `dnext` (B, T, C) of the features and `dauxiliary`."""
        h, last, saved_backbone, saved_classes = saved

        # logits = classes(h[each text, its last token])
        dx = self.classes.backward(dlogits, saved_classes)            # (B, C)
        dh = np.zeros(h.shape, dx.dtype)
        dh[np.arange(len(dx)), last] = dx

        # following = head_loss(h, next tokens)
        if dnext is not None:
            dh += dnext

        # h = features(ids)
        return self.backbone.features_backward(dh, saved_backbone, dauxiliary)

    auxiliary_parts = 1                                               # as of `LossOfParts`

    def loss_counts(self, batch):
        """The numbers of labels; of next tokens, with `lm_weight`; and of texts, with experts."""
        ids, lengths, labels = batch
        n_next = int(_last_tokens(ids, lengths).sum())                # a text of n has n - 1
        n_labels, n_next = n_counted(labels), n_next if self.lm_weight else 0
        return n_labels, n_next, len(ids) if self.config.n_experts > 1 else 0

    def loss_parts(self, batch, rng=None):
        """The losses of classes, of next tokens, and of the balance of experts; and saved.

        Parameters
        ----------
        batch : (ids, lengths, labels)
            A label is `IGNORE_INDEX` where it is not known.
        rng : numpy.random.Generator, optional
            For dropout.
        """
        ids, lengths, labels = batch
        n_labels, n_next, _ = self.loss_counts(batch)
        logits, saved_logits = self.forward(ids, lengths, rng)
        h, last, saved_backbone, _ = saved_logits
        of_classes = of_next = 0.0
        saved_classes = saved_next = None
        if n_labels:
            of_classes, saved_classes = cross_entropy(logits, labels,
                                                      label_smoothing=self.label_smoothing)
        if n_next:
            of_next, saved_next = head_loss(self.backbone.head, h, next_tokens(ids, last))
        of_balance = self.backbone.auxiliary_loss(saved_backbone)
        losses = (of_classes, self.lm_weight * of_next, of_balance)

        saved = (saved_logits, logits, saved_classes, saved_next)
        return losses, saved

    def loss_backward(self, saved, dloss=1.0):
        """Add the gradient of dloss * loss to every parameter; `dloss` as in `LossOfParts`."""
        saved_logits, logits, saved_classes, saved_next = saved
        dclasses, dnext, dauxiliary = for_each_part(dloss, 3)

        # losses[1] = lm_weight * head_loss(h, next tokens)
        dh = None
        if saved_next is not None:
            dh = head_loss_backward(self.backbone.head, self.lm_weight * dnext, saved_next)

        # losses[0] = cross_entropy(logits, labels)
        dlogits = np.zeros_like(logits.real)
        if saved_classes is not None:
            dlogits = cross_entropy_backward(dclasses, saved_classes)

        # losses[2] = auxiliary_loss
        self.backward(dlogits, saved_logits, dh, dauxiliary)

    def costs(self):
        return costs_per_token(self)

    def describe_model(self, reader):
        features = self.backbone.describe_features(reader)
        head = (reader.function(("B", "C"), "Last token", DecoderClassifier,
                                "its vector at the top", OF_TOKEN),
                *reader.boxes(("B", self.config.n_classes), self.classes, name="Linear head"))
        unused = reader.boxes(("B", "T", "V"), self.backbone.head)
        return reader.architecture(Column(TOKENS, (*features, Row((head, unused)))))


def next_tokens(ids, last):
    """The target of every position: the token after it; `IGNORE_INDEX` from the last one on.

    Examples
    --------
    >>> next_tokens(np.array([[1, 5, 2, 0]]), np.array([2]))
    array([[   5,    2, -100, -100]])
    """
    targets = np.full_like(ids, IGNORE_INDEX)
    targets[:, :-1] = np.where(np.arange(ids.shape[1] - 1) < last[:, None], ids[:, 1:],
                               IGNORE_INDEX)
    return targets


def _last_tokens(ids, lengths):
    """The index of the last token of each row before its padding, (B,)."""
    check_rows("DecoderClassifier", "ids", ids)
    B, T = ids.shape
    if lengths is None:
        return np.full(B, T - 1)
    check_lengths("DecoderClassifier", lengths, B, T)
    return np.asarray(lengths) - 1
