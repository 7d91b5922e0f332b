"""TinyBERT: a small classifier that learns from a large one."""

from numformer.models.tinybert.config import TinyBertConfig
from numformer.models.tinybert.model import TinyBert
from numformer.models.tinybert.teacher import taught, teacher_states

__all__ = ["TinyBert", "TinyBertConfig", "taught", "teacher_states"]
