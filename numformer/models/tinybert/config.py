"""The config of TinyBERT."""

from dataclasses import dataclass
from typing import ClassVar

from numformer.checks import check_number, check_whole
from numformer.models.bert_classifier import BertClassifierConfig
from numformer.models.transformer import TransformerConfig

WEIGHTS = "hard_weight", "soft_weight", "hidden_weight", "attention_weight"


@dataclass(frozen=True, kw_only=True)
class TinyBertConfig(BertClassifierConfig):
    """The config of a `TinyBert`.

    Parameters
    ----------
    teacher_width : int, optional
        C of the teacher. A student that learns without a teacher, from labels alone, has none.
    temperature : float above 0
        Of the softened predictions: see `distillation_loss`.
    hard_weight, soft_weight, hidden_weight, attention_weight : float, at least 0
        Factors of the cross-entropy with labels, of the distillation loss, and of the losses of
        embeddings and hidden states, and of attention scores.

    Examples
    --------
    >>> sizes = dict(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16, n_classes=3)
    >>> TinyBertConfig(**sizes, teacher_width=32, temperature=0)
    Traceback (most recent call last):
    ValueError: TinyBertConfig: temperature=0 must be a number above 0.
    """

    NORMS: ClassVar = TransformerConfig.NORMS             # states of BatchNorms depend on others

    teacher_width: int | None = None
    temperature: float = 1.0
    hard_weight: float = 1.0
    soft_weight: float = 1.0
    hidden_weight: float = 1.0
    attention_weight: float = 1.0

    def __post_init__(self):
        super().__post_init__()
        if self.teacher_width is not None:
            check_whole("TinyBertConfig", "teacher_width", self.teacher_width)
        check_number("TinyBertConfig", "temperature", self.temperature, above=0)
        for name in WEIGHTS:
            check_number("TinyBertConfig", name, getattr(self, name), least=0)
