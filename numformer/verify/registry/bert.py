"""BERT, what stands on its trunk, and Sentence-BERT's functions."""

import numpy as np

from numformer import functional as F
from numformer.layers import ClassPooler, MaskedTokenHead
from numformer.models import (
    Bert, BertClassifier, BertClassifierConfig, BertConfig, BertEncoder, BertEncoderConfig, SentenceBert, SentenceBertConfig)
from numformer.parameter import Parameter
from numformer.verify.cases import Case, Pair
from numformer.verify.registry.transformer import floats

SIZES = dict(vocab_size=7, context_length=6, n_layers=2, n_heads=2, d_model=8, d_hidden=12)
IDS = np.array([[1, 5, 2, 4, 2], [1, 6, 6, 2, 0]])                    # [CLS] 5 [SEP] 4 [SEP] and [CLS] 6 6 [SEP] [PAD]
SEGMENTS, LENGTHS = np.array([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]), np.array([5, 4])
TARGETS = np.array([[-100, 3, -100, 4, -100], [-100, -100, 6, -100, -100]])
WRONG = [((np.array([1, 2]),), ValueError, "(B, T)"), ((np.array([[7]]),), ValueError, "0 .. 6"),
         ((np.zeros((1, 7), int),), ValueError, "only 0 .. 5")]


def model(kind, config, **switches):
    return lambda rng, dtype: kind(config(**{**SIZES, **switches}, dtype=np.dtype(dtype).name), rng)


def dropped():
    return {"rng": np.random.default_rng(5)}


def masked(ids):
    return ids, TARGETS[:, :ids.shape[1]], SEGMENTS, LENGTHS, np.array([1, 0])


def labelled(ids):
    return ids, LENGTHS, np.array([2, 0])


def triplets(ids):
    """Three of ids that differ, so that no gradient is zero; two of the three topics are one."""
    rows, lengths = ids[[0, 1, 1]] % 7, np.array([5, 4, 3])
    return rows, lengths, (rows + 2) % 7, lengths[::-1], (rows[::-1] + 3) % 7, lengths, np.array([0, 1, 0])


LAYERS = [
    Case("class pooler", lambda rng, dtype: ClassPooler(4, rng, dtype=dtype), [(2, 3, 4)],
         wrong=[((floats(3, 4),), ValueError, "(B, T, C)"), ((floats(2, 3, 5),), ValueError, "C=4"), ((floats(2, 0, 4),), ValueError, "")]),
    Case("masked-token head", lambda rng, dtype: MaskedTokenHead(Parameter(rng.standard_normal((5, 4)).astype(dtype)), rng), [(2, 3, 4)],
         wrong=[((floats(2, 3, 5),), ValueError, "C=4")]),
    Case("BERT's trunk, sinusoidal", model(BertEncoder, BertEncoderConfig, positions="sinusoidal", norm_first=True), [],
         lambda: {"segments": SEGMENTS, "lengths": LENGTHS}, ids=(IDS,),
         wrong=[((np.array([1, 2]),), ValueError, "(B, T)"), ((IDS[:1],), ValueError, "one for each of the B=1 rows"),
                ((IDS[:, :3],), ValueError, "1 .. T=3"), ((np.tile(IDS, 2),), ValueError, "segments must have the shape of ids, (2, 10)"),
                ((IDS + 2,), ValueError, "0 .. 6")]),
]

MODELS = [
    Case("BERT", model(Bert, BertConfig), [], ids=(IDS,), batch=masked, wrong=WRONG),
    Case("BERT with dropout", model(Bert, BertConfig, dropout=0.2), [], dropped, ids=(IDS,), batch=masked),
    Case("RoBERTa", model(Bert, BertConfig, segments=0, next_sentence=False), [], ids=(IDS,), batch=masked),
    Case("ModernBERT", model(Bert, BertConfig, segments=0, next_sentence=False, norm_first=True, positions="rotary", feedforward="geglu",
                             bias=False, window=1, global_every=2), [], ids=(IDS,), batch=masked),
    Case("BERT with a content layer", model(Bert, BertConfig, positions="rotary", content_layers=1, like_to_like=True), [], ids=(IDS,),
         batch=masked),
    Case("classifier on BERT", model(BertClassifier, BertClassifierConfig, n_classes=3, dropout=0.2), [], dropped, ids=(IDS,),
         batch=labelled, wrong=WRONG),
    # Without biases: the last one moves all vectors alike, so that no distance feels it, and its gradient is nothing but rounding
    *(Case(f"Sentence-BERT, {objective}, {pooling}", model(SentenceBert, SentenceBertConfig, objective=objective, pooling=pooling,
                                                           margin=9.0, scale=3.0, bias=objective != "triplet"), [],
           ids=(IDS,), batch=triplets, wrong=WRONG)
      for objective, pooling in (("triplet", "mean"), ("in_batch", "mean"), ("in_batch", "max"), ("triplet", "class"))),
]

PAIRS = [
    Pair("cosine similarity", F.cosine_similarity, F.cosine_similarity_backward, [(3, 4), (2, 4)]),
    Pair("triplet loss", F.triplet_loss, F.triplet_loss_backward, [(5, 3), (5, 3), (5, 3)]),
    Pair("triplet loss, another margin", F.triplet_loss, F.triplet_loss_backward, [(5, 3), (5, 3), (5, 3)], options=dict(margin=0.3)),
]
