"""Sentence-BERT: one vector for a text, so that texts with the same meaning are close."""

from dataclasses import dataclass

import numpy as np

from numformer.backend import cross_entropy, cross_entropy_backward
from numformer.checks import check_choice, check_ids, check_number, check_whole
from numformer.functional import (
    cosine_similarity, cosine_similarity_backward, triplet_loss, triplet_loss_backward)
from numformer.functional.losses.similarity import normalized, normalized_backward
from numformer.layers import ClassPooler, Pooling
from numformer.models.bert_encoder import BertEncoder, BertEncoderConfig
from numformer.parameter import Layer

MASKED_LOGIT = -1e4                                           # its probability is 0 in float32


@dataclass(frozen=True, kw_only=True)
class SentenceBertConfig(BertEncoderConfig):
    """The config of a `SentenceBert`.

    Parameters
    ----------
    pooling : "mean", "max" or "class"
        How the vectors of the tokens become one: see `Pooling`.
    objective : "triplet" or "in_batch"
        The anchor is to be closer to its positive than to its negative; or, of all positives of the
        batch, closest to its own.
    normalize : bool
        Divide the vector of a text by its norm.
    max_length : int, optional
        Tokens of a text, special ones included, to which longer texts are cut; `context_length`
        unless given.
    pooler : bool
        Whether the model keeps the weights of BERT's pooler, which it does not use, for
        `load_pretrained_backbone`.
    margin : float above 0
        Of the triplet loss.
    scale : float above 0
        Multiplies the cosines before the softmax of the objective "in_batch".

    Examples
    --------
    >>> sizes = dict(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16)
    >>> SentenceBertConfig(**sizes, objective="pair")
    Traceback (most recent call last):
    ValueError: SentenceBertConfig: objective='pair' is unknown; choose from 'triplet', 'in_batch'.
    """

    pooling: str = "mean"
    objective: str = "triplet"
    normalize: bool = False
    max_length: int | None = None
    pooler: bool = False
    margin: float = 1.0
    scale: float = 20.0

    def __post_init__(self):
        super().__post_init__()
        owner = "SentenceBertConfig"
        check_choice(owner, "pooling", self.pooling, ["mean", "max", "class"])
        check_choice(owner, "objective", self.objective, ["triplet", "in_batch"])
        for name in ("margin", "scale"):
            check_number(owner, name, getattr(self, name), above=0)
        if self.max_length is not None:
            check_whole(owner, "max_length", self.max_length)
            if self.max_length > self.context_length:
                raise ValueError(f"{owner}: max_length={self.max_length} must be at most "
                                 f"context_length={self.context_length}.")


class SentenceBert(Layer):
    r"""A vector for a text, ids (B, T) to (B, C): the pooled output of BERT's encoder.

    The loss runs one encoder over anchors, positives and negatives: two or three calls, each with a
    `saved` of its own. Their backward passes add up in the same weights, so this siamese network
    needs no copies.

    .. math::

        L_{\text{triplet}} = \langle \max(0, |a_i - p_i| - |a_i - n_i| + m) \rangle, \qquad
        L_{\text{in batch}} = \Big\langle -\log \frac{e^{\sigma \cos(a_i, p_i)}}
            {\sum_j e^{\sigma \cos(a_i, p_j)}} \Big\rangle

    In the second, j runs over i and over the positives of other topics: those of the anchor's own
    topic are not wrong.

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

    def __init__(self, config, rng):
        self.config = config
        self.backbone = BertEncoder(config, rng)
        self.pooling = Pooling(config.pooling)
        self.pooler = None
        if config.pooler:
            self.pooler = ClassPooler(config.d_model, rng, config.init_std, np.dtype(config.dtype))

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
        real = None if lengths is None else np.arange(ids.shape[1]) < lengths[:, None]
        y, saved_pooling = self.pooling.forward(x, real)              # (B, C)
        scale = None
        if self.config.normalize:
            y, scale = normalized(y)                                  # (B, C), (B, 1)

        saved = (saved_backbone, saved_pooling, y if self.config.normalize else None, scale)
        return y, saved

    def backward(self, dy, saved):
        saved_backbone, saved_pooling, y, scale = saved

        # y = y / |y|
        if self.config.normalize:
            dy = normalized_backward(dy, y, scale)

        # y = pooling(backbone(ids))
        dx = self.pooling.backward(dy, saved_pooling)
        return self.backbone.backward(dx, saved_backbone)

    def loss(self, batch, rng=None):
        """The mean loss of a batch of triplets.

        Parameters
        ----------
        batch : (anchors, lengths, positives, lengths, negatives, lengths, topics)
            Ids of shapes (B, T), each with its lengths (B,), and the topics of the anchors, int of
            shape (B,). The triplet loss ignores the topics, "in_batch" the negatives.
        rng : numpy.random.Generator, optional
            For dropout.
        mask : ndarray of bool, shape (T, T), (B, 1, T, T) or (B, H, T, T), optional
            True: this query may attend to this key, as far as its length allows.

        Returns
        -------
        loss : scalar
        saved : tuple
        """
        anchors, a_lengths, positives, p_lengths, negatives, n_lengths, topics = batch
        a, saved_a = self.forward(anchors, a_lengths, rng)            # (B, C)
        p, saved_p = self.forward(positives, p_lengths, rng)
        if self.config.objective == "triplet":
            n, saved_n = self.forward(negatives, n_lengths, rng)
            loss, saved_loss = triplet_loss(a, p, n, self.config.margin)
            return loss, (saved_a, saved_p, saved_n, saved_loss)
        check_ids("SentenceBert", "topics", topics, size=2**31)
        own = np.eye(len(a), dtype=bool)
        counts = own | (topics[:, None] != topics)                    # (B, B)
        cosines, saved_cosines = cosine_similarity(a, p)              # (B, B)
        logits = np.where(counts, self.config.scale * cosines, MASKED_LOGIT)
        loss, saved_entropy = cross_entropy(logits, np.arange(len(a)))

        saved = (saved_a, saved_p, None, (saved_cosines, counts, saved_entropy))
        return loss, saved

    def loss_backward(self, saved, dloss=1.0):
        """Add the gradient of dloss * loss to every parameter."""
        saved_a, saved_p, saved_n, saved_loss = saved
        if self.config.objective == "triplet":
            # loss = triplet_loss(a, p, n)
            da, dp, dn = triplet_loss_backward(dloss, saved_loss)
            self.backward(dn, saved_n)
        else:
            saved_cosines, counts, saved_entropy = saved_loss

            # loss = cross_entropy(where(counts, scale * cosines, masked), own)
            dlogits = cross_entropy_backward(dloss, saved_entropy)
            dcosines = np.where(counts, self.config.scale * dlogits, 0)

            # cosines = cosine_similarity(a, p)
            da, dp = cosine_similarity_backward(dcosines, saved_cosines)

        # a = forward(anchors), p = forward(positives): gradients add up in the same weights
        self.backward(dp, saved_p)
        self.backward(da, saved_a)
