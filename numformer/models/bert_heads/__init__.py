"""Heads for each token of a text on BERT's encoder.

    token_classifier    a label for every token: parts of speech, entities
    span_classifier     the first and the last token of an answer
"""

from numformer.models.bert_heads.span_classifier import (
    BertSpanClassifier, BertSpanClassifierConfig, best_spans)
from numformer.models.bert_heads.token_classifier import (
    BertTokenClassifier, BertTokenClassifierConfig)

__all__ = ["BertSpanClassifier", "BertSpanClassifierConfig", "BertTokenClassifier",
           "BertTokenClassifierConfig", "best_spans"]
