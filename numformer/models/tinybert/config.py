"""The config of TinyBERT."""

from dataclasses import dataclass
from typing import ClassVar

from numformer.checks import check_number
from numformer.models.bert_classifier import BertClassifierConfig


@dataclass(frozen=True, kw_only=True)
class TinyBertConfig(BertClassifierConfig):
    """The config of a `TinyBert`.

    Parameters
    ----------
    teacher_width : int
        C of the teacher.
    temperature : float above 0
        Of the softened predictions: see `distillation_loss`.
    hard_weight, soft_weight, hidden_weight : float, at least 0
        Factors of the cross-entropy with labels, of the distillation loss, and of the loss of
        embeddings and hidden states.

    Examples
    --------
    >>> sizes = dict(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16, n_classes=3)
    >>> TinyBertConfig(**sizes, teacher_width=32, temperature=0)
    Traceback (most recent call last):
    ValueError: TinyBertConfig: temperature=0 must be a number above 0.
    """

    WHOLE: ClassVar = (*BertClassifierConfig.WHOLE, "teacher_width")

    teacher_width: int
    temperature: float = 1.0
    hard_weight: float = 1.0
    soft_weight: float = 1.0
    hidden_weight: float = 1.0

    def __post_init__(self):
        super().__post_init__()
        check_number("TinyBertConfig", "temperature", self.temperature, above=0)
        for name in ("hard_weight", "soft_weight", "hidden_weight"):
            check_number("TinyBertConfig", name, getattr(self, name), least=0)
