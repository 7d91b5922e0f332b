"""The config of TinyBERT."""

from dataclasses import dataclass

from numformer.config import option
from numformer.models.bert.classifier import BertClassifierConfig
from numformer.models.transformer.config import NORMS

WEIGHTS = "hard_weight", "soft_weight", "hidden_weight", "attention_weight"


@dataclass(frozen=True, kw_only=True)
class TinyBertConfig(BertClassifierConfig):
    """The config of a `TinyBert`.

    Examples
    --------
    >>> sizes = dict(vocab_size=9, context_length=8, n_layers=2, n_heads=2, d_model=16, n_classes=3)
    >>> TinyBertConfig(**sizes, teacher_width=32, temperature=0)
    Traceback (most recent call last):
    ValueError: TinyBertConfig: temperature=0 must be a number above 0.
    """

    norm: str = option(                                   # states of BatchNorms depend on others
        "Which normalization.", "layer_norm", choices=NORMS)
    teacher_width: int | None = option(
        "C of the teacher. A student that learns without a teacher, from labels alone, has none.",
        None)
    temperature: float = option(
        "Of the softened predictions: see `distillation_loss`.", 1.0, above=0)
    hard_weight: float = option("Factor of the cross-entropy with labels.", 1.0, least=0)
    soft_weight: float = option("Factor of the distillation loss.", 1.0, least=0)
    hidden_weight: float = option(
        "Factor of the losses of embeddings and hidden states.", 1.0, least=0)
    attention_weight: float = option("Factor of the losses of attention scores.", 1.0, least=0)
