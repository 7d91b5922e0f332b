"""The task of n-gram models: the same text and the same measure as other language models', learned by counting."""

from numformer.tasks.text import TextTask
from numformer.training import CountingTrainer


class NGramTask(TextTask):
    """Count n-grams, longer ones with every step: see `CountingTrainer`."""

    name = "ngrams"
    kinds = ("NGramLanguageModel",)

    def trainer(self, model, stream, validation, training):
        return CountingTrainer(model, stream, validation, training)

    def measure(self, model, tokenizer, material):
        """How long its n-grams are."""
        return {"n": model.n}
