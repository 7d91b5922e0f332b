"""Distillation: losses of a student, with the teacher as a constant, and TinyBERT."""

import numpy as np

from numformer import functional as F
from numformer.models import TinyBert, TinyBertConfig
from numformer.specifications.pair import seeded
from numformer.verify.registry.bert import IDS, WRONG, labelled, model
from numformer.verify.registry.cases import Case

RNG = np.random.default_rng(8)
TEACHER_LOGITS, TEACHER_STATES, TEACHER_SCORES = (
    RNG.standard_normal(shape) for shape in ((2, 3), (2, 3, 5, 6), (2, 2, 2, 5, 5)))


def with_a_teacher(ids):
    """Labels, and a teacher of width 6: states of the embedding and of two blocks, and scores."""
    return *labelled(ids), TEACHER_LOGITS, TEACHER_STATES, TEACHER_SCORES


def of_one_block(ids):
    """The same for a student of one block."""
    *before, states, scores = with_a_teacher(ids)
    return *before, states[:, :2], scores[:, :1]


def half_labelled(ids):
    """The same, where the second text has no label."""
    ids, lengths, labels, *teacher = of_one_block(ids)
    return ids, lengths, np.array([labels[0], F.IGNORE_INDEX]), *teacher


def student(**options):
    return model(TinyBert, TinyBertConfig, n_classes=3, teacher_width=6, temperature=2.0,
                 hard_weight=0.5, soft_weight=2.0, hidden_weight=0.7, attention_weight=0.6,
                 **options)


MODELS = [
    Case("TinyBERT", student(n_layers=2), [], ids=(IDS,), batch=with_a_teacher, wrong=WRONG),
    Case("TinyBERT, pre-norm, with dropout", student(norm_first=True, dropout=0.2), [], seeded,
         ids=(IDS,), batch=of_one_block),
    Case("TinyBERT, rotary, grouped heads", student(positions="rotary", n_kv_heads=1), [],
         ids=(IDS,), batch=half_labelled),
    Case("TinyBERT, labels alone", model(TinyBert, TinyBertConfig, n_classes=3), [], ids=(IDS,),
         batch=labelled),
]
