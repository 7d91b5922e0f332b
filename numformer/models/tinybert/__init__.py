"""TinyBERT: a small classifier that learns from a large one."""

from numformer.models.tinybert.config import TinyBertConfig
from numformer.models.tinybert.model import TinyBert
from numformer.models.tinybert.scores import (
    attention_loss, attention_loss_backward, attention_scores, attention_scores_backward)
from numformer.models.tinybert.teacher import check_teacher, taught, teacher_states

__all__ = ["TinyBert", "TinyBertConfig", "attention_loss", "attention_loss_backward",
           "attention_scores", "attention_scores_backward", "check_teacher", "taught",
           "teacher_states"]
