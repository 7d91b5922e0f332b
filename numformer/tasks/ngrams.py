"""The task of n-gram models: the same text and the same measure as other language models', learned by counting."""

from dataclasses import fields

from numformer.tasks.text import TextTask
from numformer.training import CountingTrainer, TrainingConfig


class NGramTask(TextTask):
    """Count n-grams, longer ones with every step: see `CountingTrainer`."""

    name = "ngrams"
    kinds = ("NGramLanguageModel",)
    unused = frozenset(field.name for field in fields(TrainingConfig)) - {
        "steps", "seed", "eval_every", "eval_blocks", "save_every", "patience"}

    def trainer(self, model, stream, validation, training):
        return CountingTrainer(model, stream, validation, training)

    def measure(self, model, tokenizer, material):
        """How long its n-grams are."""
        return {"n": model.n}
