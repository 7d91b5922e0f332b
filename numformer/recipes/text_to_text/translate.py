"""The Transformer of 2017 in small: numbers in English words to French words."""

from functools import lru_cache

from numformer.data import WordTokenizer, english, held_out_numbers, number_pairs
from numformer.generation import beam_search
from numformer.recipes.text_to_text.pairs import SPECIAL, VALIDATION_BATCH, Pairs, PairTask
from numformer.recipes.preset import Preset, more

TRAINING_PAIRS = 20_000
BEAMS, LENGTH_PENALTY = 4, 0.6                                        # of the paper, section 6.1
SHOWN = 97_281                                                        # 97 is reordered


class TranslateTask(PairTask):
    """English number words to French ones by beam search.

    Measured by the fraction of exact answers on 1,000 held-out numbers.
    """

    name = "translate"
    longest = 40
    alignment = "Attention from French to English"

    def pairs(self):
        return _pairs()

    def tokenizer(self, dataset):
        """Words and the hyphens between them: one vocabulary shared by both languages."""
        text = " ".join(" ".join(pair) for pair in dataset.training)
        return WordTokenizer.of(text, special=SPECIAL)

    def written(self, model, tokenizer, sources):
        """The token ids of a model's answers, by beam search."""
        answers = []
        for first in range(0, len(sources), VALIDATION_BATCH):
            ids = [self.source_ids(tokenizer, source)
                   for source in sources[first : first + VALIDATION_BATCH]]
            answers += beam_search(model, ids, *self.special_ids(tokenizer), BEAMS, self.longest,
                                   LENGTH_PENALTY)
        return answers

    def measure(self, model, tokenizer, dataset):
        """The fraction of held-out answers that are exact, by beam search and greedily."""
        sources, targets = zip(*dataset.held_out)
        greedy = [self.text_of(tokenizer, ids)
                  for ids in super().written(model, tokenizer, sources)]
        n_right = sum(answer == target for answer, target in zip(greedy, targets))
        return {**super().measure(model, tokenizer, dataset),
                "exact_greedily": n_right / len(targets)}

    def shown(self):
        return english(SHOWN)


@lru_cache(maxsize=1)
def _pairs():
    return Pairs("number words", number_pairs(TRAINING_PAIRS, seed=0), held_out_numbers())


PRESETS = {
    # Vaswani et al. (2017), smaller: post-norm, sinusoids, one embedding table, label smoothing,
    # and the inverse square root schedule
    "translate": Preset(
        dict(context_length=64, n_layers=2, n_heads=4, d_model=128, init_std=0.08),
        dict(steps=3000, batch_size=64, learning_rate=2e-3, min_learning_rate=0.0,
             schedule="inverse_sqrt", warmup_steps=400, beta2=0.98, optimizer="adam",
             eval_every=500, save_every=500),
        TranslateTask(), "EncoderDecoder", recipe=dict(label_smoothing=0.1),
        claims=(more("exact", 0.99),)),
}
