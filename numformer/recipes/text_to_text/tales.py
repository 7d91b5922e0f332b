"""T5's "summarize:" in small: the one-sentence summary of a tale of the small world."""

from functools import lru_cache

import numpy as np

from numformer.analysis import rouge_l
from numformer.data import WordTokenizer, tales
from numformer.data.tokenizers.words import split_words
from numformer.data.world import joined
from numformer.recipes.text_to_text.pairs import SPECIAL, Pairs, PairTask
from numformer.recipes.text_to_text.t5 import MODEL, TRAINING
from numformer.recipes.preset import Preset, more

TRAINING_TALES, HELD_OUT = 16_000, 400
PREFIX = "summarize: "


class SummarizeTask(PairTask):
    """"summarize: " and a tale, to its summary. In held-out tales, people have other things."""

    name = "summarize"
    longest = 24
    samples = 2
    alignment = "Attention from a summary to its tale"

    def pairs(self):
        return _pairs()

    def shown(self):
        """The shortest held-out tale."""
        return min((source for source, _ in self.pairs().held_out), key=len)

    def tokenizer(self, dataset):
        return WordTokenizer.of(" ".join(map(" ".join, dataset.training)), special=SPECIAL)

    def measure(self, model, tokenizer, dataset):
        """Exact match and mean ROUGE-L of summaries, and ROUGE-L of two single sentences.

        Lead-1 is the first sentence of a tale. The best sentence is the one with the highest
        ROUGE-L of all, which needs the reference: no method that copies one sentence does better.
        """
        sources, targets = zip(*dataset.held_out)
        summaries = self.answers(model, tokenizer, list(sources))
        sentences = [sentences_of(source) for source in sources]
        best = [max(rouge_of(each, target) for each in own)
                for own, target in zip(sentences, targets)]
        return {"exact": float(np.mean([one == two for one, two in zip(summaries, targets)])),
                "rouge_l": mean_rouge(summaries, targets),
                "rouge_l_of_the_first_sentence": mean_rouge([own[0] for own in sentences], targets),
                "rouge_l_of_the_best_sentence": float(np.mean(best))}


def rouge_of(summary, reference):
    """ROUGE-L of two texts, by their words; white space is no word, marks are."""
    return rouge_l(*([word for word in split_words(text) if not word.isspace()]
                     for text in (summary, reference)))


def mean_rouge(summaries, references):
    """The mean of `rouge_of`."""
    return float(np.mean([rouge_of(*pair) for pair in zip(summaries, references)]))


def sentences_of(source):
    """The sentences of a source without its prefix.

    Examples
    --------
    >>> sentences_of("summarize: ann had a ball. tom took it.")
    ['ann had a ball.', 'tom took it.']
    """
    return [f"{sentence}." for sentence in source.removeprefix(PREFIX)[:-1].split(". ")]


@lru_cache(maxsize=1)
def _pairs():
    def pairs(count, held_out):
        return [(PREFIX + told.text, joined(told.summary))
                for told in tales(count, held_out=held_out)]
    return Pairs("summaries of tales", pairs(TRAINING_TALES, False), pairs(HELD_OUT, True))


PRESETS = {
    # Raffel et al. (2020), smaller, as the preset "t5"
    "summarize": Preset(
        dict(MODEL, d_model=96, n_heads=12, context_length=128),
        dict(TRAINING, steps=300, batch_size=32, shards=2, eval_every=150, save_every=150),
        SummarizeTask(), "EncoderDecoder",
        claims=(more("rouge_l", beats="rouge_l_of_the_best_sentence"),
                more("rouge_l", beats="rouge_l_of_the_first_sentence"), more("exact"))),
}
