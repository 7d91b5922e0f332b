"""The task of the 2017 Transformer: numbers in English words to French words."""

from functools import lru_cache

import numpy as np

from numformer.backend import one_blas_thread
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

    def pictures(self, model, tokenizer):
        """Which words of a number each word of its translation looked at."""
        from numformer.plots import alignment_map

        source = tokenizer.encode(english(SHOWN))
        (written,) = beam_search(model, [source], *self.ids(tokenizer), BEAMS, self.longest, LENGTH_PENALTY)
        outputs = np.array([[tokenizer.special_id(SPECIAL[1]), *written]])
        with one_blas_thread():
            *_, cross = model.attention_weights(source[None], np.array([len(source)]), outputs)
        weights = cross[-1][0].mean(axis=0)                           # (T, S): the last block, mean of its heads
        pieces = [[tokenizer.decode([i]) for i in ids] for ids in (source, written)]
        return {"alignment.png": alignment_map(weights[:len(written)], *pieces, title="Attention from French to English")}


@lru_cache(maxsize=1)
def _pairs():
    return Pairs("number words", number_pairs(TRAINING_PAIRS, seed=0), held_out_numbers())
