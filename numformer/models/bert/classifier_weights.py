"""Fine-tuned encoders: a class for a text, a label for every token, or a span of a text.

transformers calls them BertForSequenceClassification, ...ForTokenClassification and
...ForQuestionAnswering, and alike for each of its encoders. Those of texts with one label are
rerankers and other scores, whose logit is the score.
"""

from dataclasses import replace
from typing import Callable, NamedTuple

from numformer.models.bert.bert_weights import (
    ACTIVATIONS, BERT, CAMEMBERT, DISTILBERT, ROBERTA, XLM_ROBERTA, distilbert_encoder, encoder)
from numformer.models.bert.classifier import BertClassifier
from numformer.models.bert.modernbert_weights import MODERNBERT, encoder as modernbert_encoder
from numformer.models.bert.span_classifier import BertSpanClassifier
from numformer.models.bert.token_classifier import BertTokenClassifier
from numformer.weights.keys import IGNORED, Labels, Option, OtherName
from numformer.weights.table import linear, norm

_OF_BERT = ("next_sentence", "head_bias")             # options of the head of masked tokens
_GELU = Option("feedforward", "gelu", ACTIVATIONS)
_LABELS = {"id2label": Labels(), "num_labels": OtherName("n_classes")}


class _Encoder(NamedTuple):
    """What the three families of an encoder share.

    Parameters
    ----------
    family : Family
        With the head of its pre-training.
    name : str
        Of the encoder in names of classes.
    rows : callable
        ``rows(config)``: those of the encoder.
    pooler : tuple of str
        For texts: published names of the map below the classes, and of the classes.
    ends : str
        The published name of the map to spans.
    keys : dict
        Keys that mean something else here.
    options : dict
        Of texts.
    texts : dict
        Keys of texts.
    head : bool
        Whether a `PredictionHead` comes first.
    """

    family: object
    name: str
    rows: Callable
    pooler: tuple = ("classifier.dense", "classifier.out_proj")
    ends: str = "qa_outputs"
    keys: dict = {}
    options: dict = {}
    texts: dict = {}
    head: bool = False


def _roberta(family, name):
    return _Encoder(family, name, lambda c: encoder(c, "roberta", first_row=2))


_ENCODERS = (
    _Encoder(BERT, "Bert", lambda c: encoder(c, "bert"), ("bert.pooler.dense", "classifier"),
             keys={"hidden_act": _GELU}),
    _roberta(ROBERTA, "Roberta"), _roberta(XLM_ROBERTA, "XLMRoberta"),
    _roberta(CAMEMBERT, "Camembert"),
    _Encoder(DISTILBERT, "DistilBert", distilbert_encoder, ("pre_classifier", "classifier"),
             keys={"activation": _GELU}, options=dict(pooler_kind="relu")),
    _Encoder(MODERNBERT, "ModernBert", modernbert_encoder, ("head.dense", "classifier"),
             "classifier", {"decoder_bias": IGNORED}, dict(pooler_kind="head"),
             {"classifier_pooling": Option("pooling", "cls", {"cls": "class", "mean": "mean"})},
             head=True))


def _head(ours):
    yield from linear(f"{ours}.linear", "head.dense", False)
    yield from norm(f"{ours}.norm", "head.norm", False)


def _family(e, ours, theirs, model, rows, tensor, keys, options):
    family = e.family
    unused = r"|bert\.pooler\..*" if family is BERT and model is not BertClassifier else ""
    return replace(
        family, name=f"{family.name}-{ours}", model_type=family.name, model=model,
        architectures=(f"{e.name}For{theirs}",), architecture=None, copies={}, head=tensor,
        keys=family.keys | {"tie_word_embeddings": IGNORED} | e.keys | keys, rows=rows,
        options={name: value for name, value in family.options.items()
                 if name not in _OF_BERT} | options,
        buffers=family.buffers + unused, by_names=lambda names: {})


def _of_texts(e):
    def rows(config):
        yield from e.rows(config)
        if e.head:
            yield from _head("pooler.head")
        else:
            yield from linear("pooler.linear", e.pooler[0])
        yield from linear("classes", e.pooler[1])

    return _family(e, "texts", "SequenceClassification", BertClassifier, rows,
                   f"{e.pooler[1]}.weight", _LABELS | e.texts, e.options)


def _of_positions(e, ours, theirs, model, layer, keys):
    """A linear map of every position: `layer` is our name of it and the published one."""
    def rows(config):
        yield from e.rows(config)
        if e.head:
            yield from _head("head")
        yield from linear(*layer)

    return _family(e, ours, theirs, model, rows, f"{layer[1]}.weight", keys,
                   dict(prediction_head=e.head))


def _of_tokens(e):
    return _of_positions(e, "tokens", "TokenClassification", BertTokenClassifier,
                         ("classes", "classifier"), _LABELS)


def _of_spans(e):
    return _of_positions(e, "spans", "QuestionAnswering", BertSpanClassifier, ("ends", e.ends), {})


CLASSIFIERS = tuple(of(e) for e in _ENCODERS for of in (_of_texts, _of_tokens, _of_spans))
