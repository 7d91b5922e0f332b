"""Sentence-BERT: one vector for a text, so that texts on the same matter lie near each other."""

from dataclasses import dataclass

import numpy as np

from numformer.backend import cross_entropy, cross_entropy_backward
from numformer.checks import check_choice, check_ids, check_number
from numformer.functional import (
    cosine_similarity, cosine_similarity_backward, triplet_loss, triplet_loss_backward)
from numformer.layers import Pooling
from numformer.models.bert_encoder import BertEncoder, BertEncoderConfig
from numformer.parameter import Layer

FAR_OFF = -1e4                                                        # a logit whose probability is 0 in either precision


@dataclass(frozen=True, kw_only=True)
class SentenceBertConfig(BertEncoderConfig):
    """The switches of a `SentenceBert`: those of `BertEncoderConfig`, and these.

    Parameters
    ----------
    pooling : "mean", "max" or "class"
        How one vector is made of a text's: see `Pooling`.
    objective : "triplet" or "in_batch"
        Of the loss: an anchor's positive nearer than its negative; or, among all positives of a batch, the anchor's own most alike.
    margin : float above 0
        Of the triplet loss.
    scale : float above 0
        By which cosines are multiplied before the softmax, for the objective "in_batch".

    Examples
    --------
    >>> SentenceBertConfig(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16, objective="guess")
    Traceback (most recent call last):
    ValueError: SentenceBertConfig: objective='guess' is unknown; choose from 'triplet', 'in_batch'.
    """

    pooling: str = "mean"
    objective: str = "triplet"
    margin: float = 1.0
    scale: float = 20.0

    def __post_init__(self):
        super().__post_init__()
        check_choice("SentenceBertConfig", "pooling", self.pooling, ["mean", "max", "class"])
        check_choice("SentenceBertConfig", "objective", self.objective, ["triplet", "in_batch"])
        for name in ("margin", "scale"):
            check_number("SentenceBertConfig", name, getattr(self, name), above=0)


class SentenceBert(Layer):
    r"""A vector for a text, ids (B, T) to (B, C): the mean of what BERT's encoder makes of its tokens.

    Its loss runs this one encoder over anchors, over positives and over negatives: two or three calls, each with a `saved` of its own,
    whose backwards add up in the same weights. So three towers stand on one foundation, and none is ever copied.

    .. math::

        L_{\text{triplet}} = \langle \max(0, |a_i - p_i| - |a_i - n_i| + m) \rangle, \qquad
        L_{\text{in batch}} = \Big\langle -\log \frac{e^{\sigma \cos(a_i, p_i)}}{\sum_j e^{\sigma \cos(a_i, p_j)}} \Big\rangle

    In the second, j runs over i itself and the positives of other topics: those of its own are no wrong answers.

    Parameters
    ----------
    config : SentenceBertConfig
    rng : numpy.random.Generator or None
        Draws the initial weights. Those of the trunk may come from a `Bert` afterwards.

    References
    ----------
    Reimers and Gurevych (2019), "Sentence-BERT: Sentence Embeddings using Siamese BERT-Networks", section 3. Negatives from the batch:
    Henderson et al. (2017), "Efficient Natural Language Response Suggestion for Smart Reply", section 4.

    Examples
    --------
    >>> config = SentenceBertConfig(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16)
    >>> model = SentenceBert(config, np.random.default_rng(0))
    >>> ids, lengths = np.array([[1, 5, 2, 0], [1, 7, 7, 2]]), np.array([3, 4])
    >>> model(ids, lengths).shape
    (2, 16)
    >>> loss, saved = model.loss((ids, lengths, ids, lengths, ids[::-1], lengths[::-1], np.array([0, 1])))
    >>> model.loss_backward(saved)
    """

    def __init__(self, config, rng):
        self.config = config
        self.trunk = BertEncoder(config, rng)
        self.pooling = Pooling(config.pooling)

    def forward(self, ids, lengths=None, rng=None):
        """A vector for each text.

        Parameters
        ----------
        ids : ndarray of int, shape (B, T)
        lengths : ndarray of int, shape (B,), optional
            How many ids of each row are no padding: the others have no say in the mean.
        rng : numpy.random.Generator, optional

        Returns
        -------
        y : ndarray, shape (B, C)
        saved : tuple
        """
        x, saved_trunk = self.trunk.forward(ids, None, lengths, rng)  # (B, T, C)
        real = None if lengths is None else np.arange(ids.shape[1]) < lengths[:, None]
        y, saved_pooling = self.pooling.forward(x, real)              # (B, C)

        saved = (saved_trunk, saved_pooling)
        return y, saved

    def backward(self, dy, saved):
        saved_trunk, saved_pooling = saved

        # y = pooling(trunk(ids))
        return self.trunk.backward(self.pooling.backward(dy, saved_pooling), saved_trunk)

    def loss(self, batch, rng=None):
        """The mean loss of a batch of triplets.

        Parameters
        ----------
        batch : (anchors, their lengths, positives, their lengths, negatives, their lengths, topics)
            As a `TripletBatch`: ids of shapes (B, T), each with lengths (B,); and the topic of each anchor, int of shape (B,). The
            triplet loss does not look at the topics, and the objective "in_batch" not at the negatives.
        rng : numpy.random.Generator, optional

        Returns
        -------
        loss : scalar
        saved : tuple
        """
        anchors, anchor_lengths, positives, positive_lengths, negatives, negative_lengths, topics = batch
        a, saved_anchors = self.forward(anchors, anchor_lengths, rng)                     # (B, C)
        p, saved_positives = self.forward(positives, positive_lengths, rng)
        if self.config.objective == "triplet":
            n, saved_negatives = self.forward(negatives, negative_lengths, rng)
            loss, saved_loss = triplet_loss(a, p, n, self.config.margin)
            return loss, (saved_anchors, saved_positives, saved_negatives, saved_loss)
        check_ids("SentenceBert", "topics", topics, size=2**31)
        own = np.eye(len(a), dtype=bool)
        counts = own | (topics[:, None] != topics)                    # (B, B)
        cosines, saved_cosines = cosine_similarity(a, p)              # (B, B)
        logits = np.where(counts, self.config.scale * cosines, FAR_OFF)
        loss, saved_entropy = cross_entropy(logits, np.arange(len(a)))

        saved = (saved_anchors, saved_positives, None, (saved_cosines, counts, saved_entropy))
        return loss, saved

    def loss_backward(self, saved, dloss=1.0):
        """Add the gradient of dloss * loss to every parameter."""
        saved_anchors, saved_positives, saved_negatives, saved_loss = saved
        if self.config.objective == "triplet":
            # loss = triplet_loss(a, p, n)
            da, dp, dn = triplet_loss_backward(dloss, saved_loss)
            self.backward(dn, saved_negatives)
        else:
            saved_cosines, counts, saved_entropy = saved_loss

            # loss = cross_entropy(where(counts, scale * cosines, far off), own)
            dcosines = np.where(counts, self.config.scale * cross_entropy_backward(dloss, saved_entropy), 0)

            # cosines = cosine_similarity(a, p)
            da, dp = cosine_similarity_backward(dcosines, saved_cosines)

        # a = forward(anchors), p = forward(positives): the same weights twice, and their gradients add up
        self.backward(dp, saved_positives)
        self.backward(da, saved_anchors)
