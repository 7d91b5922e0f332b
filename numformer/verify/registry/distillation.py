"""Distillation: losses of a student, with the teacher as a constant, and TinyBERT."""

from numformer import functional as F
from numformer.models.tinybert import TinyBert, TinyBertConfig
from numformer.verify.registry.bert import IDS, WRONG, labelled, model
from numformer.verify.registry.cases import Case, Pair, floats, seeded

TEACHER_LOGITS, TEACHER_STATES = 2 * floats(2, 3), floats(2, 3, 5, 6)


def with_a_teacher(ids):
    """Labels, and a teacher of width 6: states of the embedding and of two blocks."""
    return *labelled(ids), TEACHER_LOGITS, TEACHER_STATES


def student(**options):
    return model(TinyBert, TinyBertConfig, n_classes=3, teacher_width=6, temperature=2.0,
                 hard_weight=0.5, soft_weight=2.0, hidden_weight=0.7, **options)


MODELS = [
    Case("TinyBERT", student(), [], ids=(IDS,), batch=with_a_teacher, wrong=WRONG),
    Case("TinyBERT, pre-norm, with dropout", student(norm_first=True, dropout=0.2), [], seeded,
         ids=(IDS,), batch=with_a_teacher),
]

PAIRS = [
    *(Pair(f"distillation loss{name}", F.distillation_loss, F.distillation_loss_backward, [(3, 4)],
           after=(2 * floats(3, 4),), options=options)
      for name, options in (("", {}), (", soft", dict(temperature=3.0)),
                            (", hard", dict(temperature=0.5)))),
    Pair("imitation loss", F.imitation_loss, F.imitation_loss_backward, [(2, 3, 4)],
         after=(floats(2, 3, 4) + 1,)),
]
