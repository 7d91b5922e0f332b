"""The answer to a question as a span of a text: its first and its last token."""

from dataclasses import dataclass

import numpy as np

from numformer.backend import cross_entropy, cross_entropy_backward
from numformer.checks import check_ids, check_mask
from numformer.config import like
from numformer.description import TOKENS, VECTORS, Column, costs_per_token
from numformer.finite import predicted_classes
from numformer.functional import IGNORE_INDEX
from numformer.layers import Linear
from numformer.models.bert.encoder import BertEncoder, BertEncoderConfig
from numformer.models.bert.prediction_head import head_of
from numformer.models.bert.token_classifier import BertTokenClassifierConfig
from numformer.models.transformer import CrossEntropyModel, real_positions


@dataclass(frozen=True, kw_only=True)
class BertSpanClassifierConfig(BertEncoderConfig):
    """The config of a `BertSpanClassifier`."""

    prediction_head: bool = like(BertTokenClassifierConfig, "prediction_head")


class BertSpanClassifier(CrossEntropyModel):
    r"""Logits of the first and of the last token of an answer, ids (B, T) to (B, 2, T).

    A row holds a question, segment 0, and a text, segment 1. Each of the two distributions runs
    over the tokens of the row; padding has probability 0.

    .. math:: z_{kt} = x_t \cdot w_k + b_k, \qquad
              x = \mathrm{head}(\mathrm{backbone}(\mathrm{ids})), \qquad
              L = -\tfrac{1}{2} \left( \log p_1(\mathrm{start}) + \log p_2(\mathrm{end}) \right)

    .. math:: \bar{x}_t = \sum_k \bar{z}_{kt} w_k, \qquad \bar{w}_k = \sum_t \bar{z}_{kt} x_t

    A batch of its loss is (ids, lengths, segments, targets): targets are int of shape (B, 2), the
    positions of the first and the last token of each answer. The loss is the mean of both
    cross-entropies. Label smoothing spreads the mass over the tokens of the row, not over padding.

    Parameters
    ----------
    config : BertSpanClassifierConfig
    rng : numpy.random.Generator or None
        Draws the initial weights; see `load_pretrained_backbone` for those of a `Bert`.

    References
    ----------
    Devlin et al. (2019), "BERT", section 4.2.

    Examples
    --------
    >>> sizes = dict(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16)
    >>> model = BertSpanClassifier(BertSpanClassifierConfig(**sizes), np.random.default_rng(0))
    >>> ids, segments = np.array([[1, 5, 2, 7, 8, 2]]), np.array([[0, 0, 0, 1, 1, 1]])
    >>> model(ids, np.array([6]), segments).shape
    (1, 2, 6)
    >>> loss, saved = model.loss((ids, np.array([6]), segments, np.array([[3, 4]])))
    >>> model.loss_backward(saved)
    """

    config_class = BertSpanClassifierConfig

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        self.backbone = BertEncoder(c, rng)
        self.head = head_of(c, rng)
        # That of ModernBERT has a bias, which nothing else has
        self.ends = Linear(c.d_model, 2, rng, c.bias or c.prediction_head, c.init_std, dtype=dtype)

    def forward(self, ids, lengths=None, segments=None, rng=None, mask=None):
        """Logits of the first and of the last token.

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
        logits : ndarray, shape (B, 2, T)
            -Inf at padding.
        saved : tuple

        Raises
        ------
        ValueError, TypeError
            As `BertEncoder.forward`.
        """
        x, saved_backbone = self.backbone.forward(ids, segments, lengths, rng, mask)  # (B, T, C)
        x, saved_head = self.head.forward(x)
        z, saved_ends = self.ends.forward(x)                          # (B, T, 2)
        real = real_positions(lengths, ids.shape[1])                  # (B, T), or None
        logits = np.ascontiguousarray(z.transpose(0, 2, 1))           # (B, 2, T)
        if real is not None:
            real = real[:, None]                                      # (B, 1, T)
            logits = np.where(real, logits, -np.inf)                  # its probability is 0

        saved = (saved_backbone, saved_head, saved_ends, real)
        return logits, saved

    def backward(self, dlogits, saved):
        saved_backbone, saved_head, saved_ends, real = saved

        # logits = where(real, z transposed, -inf)
        if real is not None:
            dlogits = np.where(real, dlogits, dlogits.dtype.type(0))
        dz = np.ascontiguousarray(dlogits.transpose(0, 2, 1))         # (B, T, 2)

        # z = ends(head(backbone(ids)))
        dx = self.head.backward(self.ends.backward(dz, saved_ends), saved_head)
        return self.backbone.backward(dx, saved_backbone)

    def loss(self, batch, rng=None):
        """(loss, saved): see above; `rng` is for dropout."""
        ids, lengths, segments, targets = batch
        check_ids("BertSpanClassifier", "targets", targets, ids.shape[1], IGNORE_INDEX)
        lengths = np.full(len(ids), ids.shape[1]) if lengths is None else lengths
        if targets.shape != (len(ids), 2) or (targets >= lengths[:, None]).any():
            raise ValueError("BertSpanClassifier: targets must be two tokens of each row, before "
                             f"its padding: shape ({len(ids)}, 2), below the row's length.")
        logits, saved_forward = self.forward(ids, lengths, segments, rng)
        loss, saved_loss = cross_entropy(logits, targets, z_loss=self.z_loss)
        saved_smoothing = None
        if self.label_smoothing:
            excess, saved_smoothing = _excess(logits, targets, lengths)
            loss = loss + self.label_smoothing * excess

        saved = (saved_forward, saved_loss, saved_smoothing)
        return loss, saved

    def loss_backward(self, saved, dloss=1.0):
        saved_forward, saved_loss, saved_smoothing = saved

        # loss = cross_entropy(logits, targets) + label_smoothing * excess(logits, targets)
        dlogits = cross_entropy_backward(dloss, saved_loss)
        if self.label_smoothing:
            dlogits = dlogits + _excess_backward(self.label_smoothing * dloss, saved_smoothing)

        # logits = forward(ids)
        self.backward(dlogits, saved_forward)

    def costs(self):
        return costs_per_token(self)

    def describe_model(self, reader):
        return reader.architecture(Column(TOKENS, (
            *self.backbone.describe_features(reader), *reader.boxes(VECTORS, self.head),
            *reader.boxes(("B", "T", 2), self.ends, name="Start and end of the span"))))


def _excess(logits, targets, lengths):
    r"""How far the logit of a target is above the mean of the tokens of its row.

    .. math:: X = \frac1n \sum_{t} \Big( z_{t y_t} - \frac1{m_t} \sum_{k < m_t} z_{tk} \Big)

    Label smoothing is this term with the weight :math:`\epsilon`: with the log-sum-exp l,

    .. math:: (1 - \epsilon) (\ell - z_y) + \epsilon (\ell - \langle z \rangle)
              = (\ell - z_y) + \epsilon (z_y - \langle z \rangle)
    """
    counts = targets != IGNORE_INDEX                                  # (B, 2)
    dtype = logits.real.dtype
    q = real_positions(lengths, logits.shape[-1]) / lengths[:, None].astype(dtype)
    onehot = np.arange(logits.shape[-1]) == targets[..., None]        # (B, 2, T)
    weights = np.where(counts[..., None], onehot - q[:, None], 0) / counts.sum()
    weights = weights.astype(dtype)                                   # (B, 2, T)
    excess = (weights * np.where(weights, logits, 0)).sum()           # 0 at padding

    saved = (weights,)
    return excess, saved


def _excess_backward(dexcess, saved):
    r"""The gradient of `_excess`.

    .. math:: \bar{z}_{tk} = \frac{\bar{X}}{n} \left( [k = y_t] - \frac{[k < m_t]}{m_t} \right)
    """
    weights, = saved

    # excess = (weights * logits).sum()
    return weights * weights.dtype.type(dexcess)


def best_spans(logits, allowed, longest=None):
    """The most probable spans with start <= end, both among allowed tokens.

    Parameters
    ----------
    logits : ndarray, shape (B, 2, T)
        Of a `BertSpanClassifier`.
    allowed : ndarray of bool, shape (B, T)
        Where an answer may start and end; at least one token of each row.
    longest : int, optional
        Tokens of an answer, at most.

    Returns
    -------
    ndarray of int, shape (B, 2)
        The first and the last token of each answer.

    Raises
    ------
    ValueError, TypeError
        If `allowed` is no mask of that shape, or a row allows no token.
    NotFinite
        If the logits of an allowed span are not finite.

    References
    ----------
    Devlin et al. (2019), "BERT", section 4.2: the sum of both logits is the score of a span.

    Examples
    --------
    >>> logits = np.array([[[0.0, 1.0, 3.0], [4.0, 2.0, 0.5]]])       # alone: 2 and 0
    >>> best_spans(logits, np.ones((1, 3), bool))
    array([[0, 0]])
    >>> best_spans(logits, np.array([[False, True, True]]))
    array([[2, 2]])
    """
    B, _, T = logits.shape
    check_mask("best_spans", allowed, (B, T))
    if not allowed.any(axis=1).all():
        raise ValueError("best_spans: a row allows no token; allow at least one of each.")
    spans = np.triu(np.ones((T, T), bool))                            # start <= end
    if longest is not None:
        spans = spans & ~np.triu(spans, longest)
    possible = spans & allowed[:, :, None] & allowed[:, None, :]      # (B, T, T)
    scores = np.where(possible, logits[:, 0, :, None] + logits[:, 1, None, :], -np.inf)
    best = predicted_classes("best_spans", scores.reshape(B, -1))     # (B,)
    return np.stack(np.divmod(best, T), axis=1)
