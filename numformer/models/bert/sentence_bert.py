"""Sentence-BERT: one vector for a text, so that texts with the same meaning are close."""

from dataclasses import dataclass

import numpy as np

from numformer.backend import cross_entropy, cross_entropy_backward
from numformer.checks import check_ids
from numformer.config import option
from numformer.description import OF_COSINE, Column, costs_per_token
from numformer.functional import (
    cosine_regression_loss, cosine_regression_loss_backward, cosine_similarity,
    cosine_similarity_backward, pair_features, pair_features_backward, triplet_loss,
    triplet_loss_backward)
from numformer.functional.losses.similarity import normalized, normalized_backward
from numformer.layers import ClassPooler, Linear, Pooling
from numformer.models.bert.encoder import BertEncoder, BertEncoderConfig
from numformer.models.transformer import real_positions
from numformer.parameter import Layer

OBJECTIVES = ["triplet", "in_batch", "classification", "regression"]


@dataclass(frozen=True, kw_only=True)
class SentenceBertConfig(BertEncoderConfig):
    """The config of a `SentenceBert`.

    Examples
    --------
    >>> sizes = dict(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16)
    >>> SentenceBertConfig(**sizes, objective="pair")    # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
    ValueError: SentenceBertConfig: objective='pair' is unknown;
                choose from 'triplet', 'in_batch', 'classification', 'regression'.
    """

    pooling: str = option(
        "How the vectors of the tokens become one: see `Pooling`.", "mean",
        choices=("mean", "max", "class"))
    objective: str = option(
        "The anchor is to be closer to its positive than to its negative (triplet); or, of all "
        "positives of the batch, closest to its own (in_batch); or the two vectors of a pair tell "
        "the class of the pair; or their cosine is to be a given number (regression).", "triplet",
        choices=OBJECTIVES)
    n_classes: int = option("Of pairs, for the objective 'classification'.", 3, least=2)
    normalize: bool = option("Divide the vector of a text by its norm.", False)
    max_length: int | None = option(
        "Tokens of a text, special ones included, to which longer texts are cut; `context_length` "
        "unless given.", None)
    pooler: bool = option(
        "Whether the model keeps the weights of BERT's pooler, which it does not use, for "
        "`load_pretrained_backbone`.", False)
    margin: float = option("Of the triplet loss.", 1.0, above=0)
    scale: float = option(
        "Multiplies the cosines before the softmax of the objective 'in_batch'.", 20.0, above=0)

    def __post_init__(self):
        super().__post_init__()
        if self.max_length is not None and self.max_length > self.context_length:
            raise ValueError(f"SentenceBertConfig: max_length={self.max_length} must be at most "
                             f"context_length={self.context_length}.")


class SentenceBert(Layer):
    r"""A vector for a text, ids (B, T) to (B, C): the pooled output of BERT's encoder.

    The loss runs one encoder over anchors, positives and negatives, or over the two texts of pairs:
    two or three calls, each with a `saved` of its own. Their backward passes add up in the same
    weights, so this siamese network needs no copies.

    .. math::

        L_{\text{triplet}} = \langle \max(0, |a_i - p_i| - |a_i - n_i| + m) \rangle, \qquad
        L_{\text{in batch}} = \Big\langle -\log \frac{e^{\sigma \cos(a_i, p_i)}}
            {\sum_j e^{\sigma \cos(a_i, p_j)}} \Big\rangle

    In the second, j runs over i and over the positives of other topics: those of the anchor's own
    topic are not wrong. Of pairs (u, v) with a class c or a similarity y:

    .. math::

        L_{\text{classification}} = \langle -\log \mathrm{softmax}(W (u_i, v_i, |u_i - v_i|)
            + b)_{c_i} \rangle, \qquad
        L_{\text{regression}} = \langle (\cos(u_i, v_i) - y_i)^2 \rangle

    Parameters
    ----------
    config : SentenceBertConfig
    rng : numpy.random.Generator or None
        Draws the initial weights; see `load_pretrained_backbone` for those of a `Bert`.

    References
    ----------
    Reimers and Gurevych (2019), "Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks",
    section 3. Negatives from the batch: Henderson et al. (2017), "Efficient Natural Language
    Response Suggestion for Smart Reply", section 4.

    Examples
    --------
    >>> sizes = dict(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16)
    >>> model = SentenceBert(SentenceBertConfig(**sizes), np.random.default_rng(0))
    >>> ids, lengths = np.array([[1, 5, 2, 0], [1, 7, 7, 2]]), np.array([3, 4])
    >>> model(ids, lengths).shape
    (2, 16)
    >>> others = ids[::-1], lengths[::-1]
    >>> loss, saved = model.loss((ids, lengths, ids, lengths, *others, np.array([0, 1])))
    >>> model.loss_backward(saved)
    """

    config_class = SentenceBertConfig

    def __init__(self, config, rng):
        self.config = config
        self.backbone = BertEncoder(config, rng)
        self.pooling = Pooling(config.pooling)
        self.pooler = None
        if config.pooler:
            self.pooler = ClassPooler(config.d_model, rng, config.init_std, np.dtype(config.dtype))
        self.pair_head = None
        if config.objective == "classification":
            self.pair_head = Linear(3 * config.d_model, config.n_classes, rng, std=config.init_std,
                                    dtype=np.dtype(config.dtype))

    def forward(self, ids, lengths=None, rng=None, mask=None):
        """A vector for each text.

        Parameters
        ----------
        ids : ndarray of int, shape (B, T)
        lengths : ndarray of int, shape (B,), optional
            Tokens of each row without its padding, which is not pooled; T unless given.
        rng : numpy.random.Generator, optional
            For dropout.
        mask : ndarray of bool, shape (T, T), (B, 1, T, T) or (B, H, T, T), optional
            True: this query may attend to this key, as far as its length allows.

        Returns
        -------
        y : ndarray, shape (B, C)
        saved : tuple
        """
        x, saved_backbone = self.backbone.forward(ids, None, lengths, rng, mask)      # (B, T, C)
        real = real_positions(lengths, ids.shape[1])                  # (B, T), or None
        y, saved_pooling = self.pooling.forward(x, real)              # (B, C)
        saved_norm = None
        if self.config.normalize:
            y, saved_norm = normalized(y)                             # (B, C)

        saved = (saved_backbone, saved_pooling, saved_norm)
        return y, saved

    def backward(self, dy, saved):
        saved_backbone, saved_pooling, saved_norm = saved

        # y = y / |y|
        if self.config.normalize:
            dy = normalized_backward(dy, saved_norm)

        # y = pooling(backbone(ids))
        dx = self.pooling.backward(dy, saved_pooling)
        return self.backbone.backward(dx, saved_backbone)

    def loss(self, batch, rng=None):
        """The mean loss of a batch of triplets, or of pairs.

        Parameters
        ----------
        batch : (anchors, lengths, positives, lengths, negatives, lengths, topics)
            Ids of shapes (B, T), each with its lengths (B,), and the topics of the anchors, int of
            shape (B,). The triplet loss ignores the topics, "in_batch" the negatives. For
            "classification" and "regression": (first, lengths, second, lengths, labels), with the
            class of each pair, int of shape (B,), or its similarity in -1 .. 1, a float.
        rng : numpy.random.Generator, optional
            For dropout.

        Returns
        -------
        loss : scalar
        saved : tuple
        """
        batch, pairs = tuple(batch), self.config.objective in ("classification", "regression")
        if len(batch) != (5 if pairs else 7):
            raise ValueError(
                f"SentenceBert: with objective={self.config.objective!r} a batch has "
                f"{'5 parts, of pairs' if pairs else '7 parts, of triplets'}, but {len(batch)} "
                "came.")
        a, saved_a = self.forward(batch[0], batch[1], rng)            # (B, C)
        p, saved_p = self.forward(batch[2], batch[3], rng)
        n, saved_n = None, None
        if self.config.objective == "triplet":
            n, saved_n = self.forward(batch[4], batch[5], rng)
            loss, saved_loss = triplet_loss(a, p, n, self.config.margin)
        elif self.config.objective == "in_batch":
            loss, saved_loss = self._in_batch_loss(a, p, batch[6])
        elif self.config.objective == "regression":
            loss, saved_loss = cosine_regression_loss(a, p, np.asarray(batch[4], a.real.dtype))
        else:
            loss, saved_loss = self._classification_loss(a, p, batch[4])

        saved = (saved_a, saved_p, saved_n, saved_loss)
        return loss, saved

    def loss_backward(self, saved, dloss=1.0):
        """Add the gradient of dloss * loss to every parameter."""
        saved_a, saved_p, saved_n, saved_loss = saved
        if self.config.objective == "triplet":
            # loss = triplet_loss(a, p, n)
            da, dp, dn = triplet_loss_backward(dloss, saved_loss)
            self.backward(dn, saved_n)
        elif self.config.objective == "in_batch":
            da, dp = self._in_batch_loss_backward(dloss, saved_loss)
        elif self.config.objective == "regression":
            # loss = cosine_regression_loss(a, p, similarities)
            da, dp = cosine_regression_loss_backward(dloss, saved_loss)
        else:
            da, dp = self._classification_loss_backward(dloss, saved_loss)

        # a = forward(anchors), p = forward(positives): gradients add up in the same weights
        self.backward(dp, saved_p)
        self.backward(da, saved_a)

    def _in_batch_loss(self, a, p, topics):
        check_ids("SentenceBert", "topics", topics, size=2**31)
        own = np.eye(len(a), dtype=bool)
        counts = own | (topics[:, None] != topics)                    # (B, B)
        cosines, saved_cosines = cosine_similarity(a, p)              # (B, B)
        logits = np.where(counts, self.config.scale * cosines, -np.inf)
        loss, saved_entropy = cross_entropy(logits, np.arange(len(a)))

        saved = (saved_cosines, counts, saved_entropy)
        return loss, saved

    def _in_batch_loss_backward(self, dloss, saved):
        saved_cosines, counts, saved_entropy = saved

        # loss = cross_entropy(where(counts, scale * cosines, -inf), own)
        dlogits = cross_entropy_backward(dloss, saved_entropy)
        dcosines = np.where(counts, self.config.scale * dlogits, 0)

        # cosines = cosine_similarity(a, p)
        return cosine_similarity_backward(dcosines, saved_cosines)

    def _classification_loss(self, u, v, classes):
        features, saved_features = pair_features(u, v)                # (B, 3 C)
        logits, saved_head = self.pair_head.forward(features)         # (B, classes)
        loss, saved_entropy = cross_entropy(logits, classes)

        saved = (saved_features, saved_head, saved_entropy)
        return loss, saved

    def _classification_loss_backward(self, dloss, saved):
        saved_features, saved_head, saved_entropy = saved

        # loss = cross_entropy(pair_head(features), classes)
        dlogits = cross_entropy_backward(dloss, saved_entropy)
        dfeatures = self.pair_head.backward(dlogits, saved_head)

        # features = pair_features(u, v)
        return pair_features_backward(dfeatures, saved_features)

    def costs(self):
        return costs_per_token(self)

    def describe_model(self, reader):
        """Two texts through the same weights: the second column is tied to the first."""
        columns = [Column(f"text {k} (B, T)", (*self.backbone.describe_features(reader),
                                               *reader.boxes(("B", "C"), self.pooling)))
                   for k in (1, 2)]
        if self.pair_head is None:
            joint = reader.function(("B",), "Cosine similarity", cosine_similarity,
                                    "of the two texts", OF_COSINE),
        else:
            joint = (reader.function(("B", 3 * self.config.d_model), "Concatenation", SentenceBert,
                                     "u, v and |u - v|", (
                                         r"du = dy_1 + \mathrm{sgn}(u - v)\,dy_3",
                                         r"dv = dy_2 - \mathrm{sgn}(u - v)\,dy_3")),
                     *reader.boxes(("B", self.config.n_classes), self.pair_head,
                                   name="Linear head"))
        if self.pooler is not None:
            columns.append(Column("", reader.boxes(("B", "C"), self.pooler,
                                                   name="Class pooler, unused")))
        return reader.architecture(*columns, joint=joint)
