"""BERT, the models built on its backbone, and functions that compare vectors and pairs."""

import numpy as np

from numformer.layers import ClassPooler, NoPositions
from numformer.models import (
    Bert, BertClassifier, BertClassifierConfig, BertConfig, BertEncoder, BertEncoderConfig,
    BertSpanClassifier, BertSpanClassifierConfig, BertTokenClassifier, BertTokenClassifierConfig,
    MaskedTokenHead, PooledHead, PredictionHead, SentenceBert, SentenceBertConfig)
from numformer.parameter import Parameter
from numformer.specifications.pair import floats, seeded
from numformer.verify.registry.cases import Case

SIZES = dict(vocab_size=7, context_length=6, n_layers=1, n_heads=2, d_model=4, d_hidden=5)
IDS = np.array([[1, 5, 2, 4, 2],
                [1, 6, 6, 2,
                 0]])                    # [CLS] 5 [SEP] 4 [SEP] and [CLS] 6 6 [SEP] [PAD]
SEGMENTS, LENGTHS = np.array([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]), np.array([5, 4])
TARGETS = np.array([[-100, 3, -100, 4, -100], [-100, -100, 6, -100, -100]])
WRONG = [((np.array([1, 2]),), ValueError, "(B, T)"), ((np.array([[7]]),), ValueError, "0 .. 6"),
         ((np.zeros((1, 7), int),), ValueError, "only 0 .. 5")]


def model(kind, config, **options):
    """What differs between most of these models is before or behind the backbone: one block."""
    return lambda rng, dtype: kind(config(**{**SIZES, **options}, dtype=np.dtype(dtype).name), rng)


def with_a_content_layer(rng, dtype):
    """The first layer attends without positions, with the same weights for queries and keys."""
    bert = model(Bert, BertConfig, n_layers=2, positions="rotary")(rng, dtype)
    attention = bert.backbone.encoder.blocks[0].attention
    attention.positions = NoPositions()
    attention.key.weight.data[:] = attention.query.weight.data
    return bert


def masked(ids):
    return ids, TARGETS[:, :ids.shape[1]], SEGMENTS, LENGTHS, np.array([1, 0])


def labelled(ids):
    return ids, LENGTHS, np.array([2, 0])


def labelled_pairs(ids):
    return ids, LENGTHS, SEGMENTS, np.array([2, 0])


def tagged(ids):
    return ids, LENGTHS, SEGMENTS, np.where(TARGETS == -100, -100, TARGETS % 3)


def answered(ids):
    return ids, LENGTHS, SEGMENTS, np.array([[3, 4], [1, 2]])


def triplets(ids):
    """Anchors, positives and negatives of different ids, so that no gradient is zero; 2 topics."""
    rows, lengths = ids[[0, 1, 1]] % 7, np.array([5, 4, 3])
    return rows, lengths, (rows + 2) % 7, lengths[::-1], (rows[::-1]
                                                          + 3) % 7, lengths, np.array([0, 1, 0])


def pairs(labels):
    """Two texts and a label each."""
    return lambda ids: (ids, LENGTHS, (ids[::-1] + 3) % 7, LENGTHS, np.array(labels))


LAYERS = [
    Case("class pooler", lambda rng, dtype: ClassPooler(4, rng, dtype=dtype), [(2, 3, 4)],
         wrong=[((floats(3, 4),), ValueError, "(B, T, C)"), ((floats(2, 3, 5),), ValueError, "C=4"),
                ((floats(2, 0, 4),), ValueError, "")]),
    Case("class pooler, ReLU",
         lambda rng, dtype: ClassPooler(4, rng, 0.5, dtype, "relu"), [(2, 3, 4)]),
    Case("prediction head", lambda rng, dtype: PredictionHead(4, rng, 0.5, dtype=dtype),
         [(2, 3, 4)], wrong=[((floats(2, 3, 5),), ValueError, "C=4")]),
    *(Case(f"pooled head, {kind}", lambda rng, dtype, kind=kind: PooledHead(
        kind, 4, rng, 0.5, bias=kind == "class", dtype=dtype), [(2, 3, 4)],
        lambda: {"mask": np.array([[True, True, True], [True, True, False]])},
        wrong=[((floats(3, 4),), ValueError, "(B, T, C)")]) for kind in ("class", "mean")),
    Case("masked-token head",
         lambda rng, dtype: MaskedTokenHead(Parameter(rng.standard_normal((5, 4)).astype(dtype)),
                                            rng), [(2, 3, 4)],
         wrong=[((floats(2, 3, 5),), ValueError, "C=4")]),
    Case("masked-token head without biases",
         lambda rng, dtype: MaskedTokenHead(Parameter(rng.standard_normal((5, 4)).astype(dtype)),
                                            rng, bias=False), [(2, 3, 4)]),
    Case("BERT's backbone, learned positions concatenated",
         model(BertEncoder, BertEncoderConfig, positions="concatenated_learned"), [],
         lambda: {"segments": SEGMENTS, "lengths": LENGTHS}, ids=(IDS,)),
    Case("BERT's backbone, sinusoidal",
         model(BertEncoder, BertEncoderConfig, positions="sinusoidal", norm_first=True), [],
         lambda: {"segments": SEGMENTS, "lengths": LENGTHS}, ids=(IDS,),
         wrong=[((np.array([1, 2]),), ValueError, "(B, T)"),
                ((IDS[:1],), ValueError, "B=1 whole numbers"),
                ((IDS[:, :3],), ValueError, "1 .. T=3"),
                ((np.tile(IDS, 2),), ValueError, "segments must have the shape of ids, (2, 10)"),
                ((IDS + 2,), ValueError, "0 .. 6")]),
    *(Case(f"{name} with segments and padding", model(kind, config, **options), [],
           lambda: {"segments": SEGMENTS, "lengths": LENGTHS}, ids=(IDS,))
      for name, kind, config, options in (
          ("classifier of pairs", BertClassifier, BertClassifierConfig, dict(n_classes=3)),
          ("token classifier", BertTokenClassifier, BertTokenClassifierConfig, dict(n_classes=3)),
          ("span classifier", BertSpanClassifier, BertSpanClassifierConfig, {}),
          ("span classifier with a prediction head", BertSpanClassifier, BertSpanClassifierConfig,
           dict(prediction_head=True, bias=False)))),
]

MODELS = [
    Case("BERT", model(Bert, BertConfig, n_layers=2), [], ids=(IDS,), batch=masked, wrong=WRONG),
    Case("BERT with dropout", model(Bert, BertConfig, dropout=0.2), [], seeded, ids=(IDS,),
         batch=masked),
    Case("RoBERTa", model(Bert, BertConfig, segments=0, next_sentence=False), [], ids=(IDS,),
         batch=masked),
    Case("ModernBERT",
         model(Bert, BertConfig, n_layers=2, segments=0, next_sentence=False, norm_first=True,
               first_attention_norm=False, n_heads=1, positions="rotary", rotary_base=90.0,
               local_rotary_base=7.0, feedforward="geglu", bias=False, head_bias=False,
               sliding_window=2, layer_types="full_attention,sliding_attention"), [],
         ids=(IDS,), batch=masked),
    Case("BERT with a content layer",
         with_a_content_layer, [], ids=(IDS,), batch=masked),
    Case("classifier on BERT",
         model(BertClassifier, BertClassifierConfig, n_classes=3, dropout=0.2), [], seeded,
         ids=(IDS,),
         batch=labelled, wrong=WRONG),
    # Without biases: BatchNorm subtracts the mean over all tokens, and with it any bias before it
    *(Case(f"classifier on BERT, BatchNorm, {'pre' if first else 'post'}-norm",
           model(BertClassifier, BertClassifierConfig, n_classes=3, norm="batch_norm", bias=False,
                 norm_first=first, epsilon=1e-5), [], ids=(IDS,), batch=labelled, wrong=WRONG)
      for first in (True, False)),
    Case("classifier of pairs on BERT",
         model(BertClassifier, BertClassifierConfig, n_classes=3), [], ids=(IDS,),
         batch=labelled_pairs, wrong=WRONG),
    Case("classifier on ModernBERT",
         model(BertClassifier, BertClassifierConfig, n_classes=3, pooler_kind="head",
               pooling="mean"), [], ids=(IDS,), batch=labelled),
    Case("token classifier on ModernBERT",
         model(BertTokenClassifier, BertTokenClassifierConfig, n_classes=3, prediction_head=True),
         [], ids=(IDS,), batch=tagged),
    Case("token classifier on BERT",
         model(BertTokenClassifier, BertTokenClassifierConfig, n_classes=3, dropout=0.2), [],
         seeded, ids=(IDS,), batch=tagged, wrong=WRONG),
    # Without biases: the last ones shift all logits of a row alike, and have no gradient
    Case("span classifier on BERT",
         model(BertSpanClassifier, BertSpanClassifierConfig, bias=False), [], ids=(IDS,),
         batch=answered, wrong=WRONG),
    # Without biases: the last bias shifts all vectors alike, so that no distance depends on it, and
    # its gradient is only rounding
    *(Case(f"Sentence-BERT, {objective}, {pooling}",
           model(SentenceBert, SentenceBertConfig, objective=objective, pooling=pooling,
                 margin=9.0, scale=3.0, bias=objective != "triplet"), [], ids=(IDS,),
           batch=triplets, wrong=WRONG)
      for objective, pooling in (("triplet", "mean"), ("in_batch", "mean"), ("in_batch", "max"),
                                 ("triplet", "class"))),
    Case("Sentence-BERT, classification",
         model(SentenceBert, SentenceBertConfig, objective="classification"), [], ids=(IDS,),
         batch=pairs([2, 0]), wrong=WRONG),
    Case("Sentence-BERT, regression",
         model(SentenceBert, SentenceBertConfig, objective="regression"), [], ids=(IDS,),
         batch=pairs([0.5, -1.0]), wrong=WRONG),
    Case("Sentence-BERT, normalized vectors",
         model(SentenceBert, SentenceBertConfig, normalize=True, bias=False), [], ids=(IDS,),
         batch=triplets, wrong=WRONG),
]
