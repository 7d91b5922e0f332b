"""The task of the 2017 Transformer: numbers in English words to French words."""

from functools import lru_cache

from numformer.datasets import english, held_out_numbers, number_pairs
from numformer.generation import beam_search
from numformer.tasks.pairs import SPECIAL, VALIDATION_BATCH, Pairs, PairTask
from numformer.tokenizers import WordTokenizer

TRAINING_PAIRS = 20_000
BEAMS, LENGTH_PENALTY = 4, 0.6                                        # of the paper, section 6.1
SHOWN = 97_281                                                        # "ninety-seven" before, four twenties and seventeen after


class TranslateTask(PairTask):
    """English number words to French ones, written by beam search; exact on how many of 1,000 numbers that were held out."""

    name = "translate"
    kinds = ("EncoderDecoder",)
    longest = 40
    alignment = "Attention from French to English"

    def pairs(self):
        return _pairs()

    def tokenizer(self, material):
        """Words, and hyphens between them: one vocabulary for both languages, in which "six" is the same word."""
        return WordTokenizer.of(" ".join(" ".join(pair) for pair in material.training), special=SPECIAL)

    def written(self, model, tokenizer, sources):
        """The ids of a model's answers, by beam search."""
        written = []
        for first in range(0, len(sources), VALIDATION_BATCH):
            ids = [tokenizer.encode(source) for source in sources[first:first + VALIDATION_BATCH]]
            written += beam_search(model, ids, *self.ids(tokenizer), BEAMS, self.longest, LENGTH_PENALTY)
        return written

    def measure(self, model, tokenizer, material):
        """The part of the held-out answers that are right to the last character, by beam search and greedily."""
        sources, targets = zip(*material.held_out)
        greedy = super().written(model, tokenizer, sources)
        return {**super().measure(model, tokenizer, material),
                "exact_greedily": sum(tokenizer.decode(ids) == target for ids, target in zip(greedy, targets)) / len(targets)}

    def shown(self):
        return english(SHOWN)


@lru_cache(maxsize=1)
def _pairs():
    return Pairs("number words", number_pairs(TRAINING_PAIRS, seed=0), held_out_numbers())
