"""T5 in small: pretraining on masked spans, and one model that follows several instructions."""

from functools import lru_cache

import numpy as np

from numformer.data import (
    INSTRUCTIONS, corrupt_spans, held_out_instructions, instruction_mixture)
from numformer.finite import predicted_classes
from numformer.functional import IGNORE_INDEX
from numformer.models import KneserNey
from numformer.recipes.library.bert import N_GRAM, n_gram_is_right
from numformer.recipes.text_to_text.documents import DocumentTask
from numformer.recipes.text_to_text.pairs import Pairs, PairTask
from numformer.recipes.preset import Preset, more

TRAINING_PAIRS = 120_000
HELD_OUT = 250                                                        # of each instruction


class InstructionTask(PairTask):
    """"reverse:", "sort:", "add:" and "french:" in one model.

    Measured by the fraction of exact answers to held-out prompts of each.
    """

    name = "instructions"
    longest = 72                                                      # a French answer may have 61
    pool = 1                                                          # mix the tasks in every batch

    def pairs(self):
        return _pairs()

    def measure(self, model, tokenizer, dataset):
        """The fraction of held-out answers that are exact: over all, and of each instruction."""
        sources, targets = zip(*dataset.held_out)
        answers = self.answers(model, tokenizer, list(sources))
        right = [answer == target for answer, target in zip(answers, targets)]
        measures = {"exact": sum(right) / len(right)}
        for task in INSTRUCTIONS:
            part = [r for r, source in zip(right, sources) if source.startswith(f"{task}:")]
            if part:
                measures[task] = sum(part) / len(part)
        return measures


@lru_cache(maxsize=1)
def _pairs():
    """Held-out instructions alternate, so that the first few are an estimate for all."""
    held_out = held_out_instructions(HELD_OUT)
    return Pairs("instructions", instruction_mixture(TRAINING_PAIRS, seed=0),
                 [pair for four in zip(*held_out.values()) for pair in four])


class SpanTask(DocumentTask):
    """Predict masked spans: 15% of a document's tokens, three in a row on average.

    The target holds the masked tokens alone, so it is short; that of BART is the whole document,
    see `DenoiseTask`.
    """

    name = "spans"
    marks = tuple(f"<{k}>" for k in range(16))                        # for 12 spans of 240 tokens
    n_gram = N_GRAM                                                   # of the baseline
    training_rate = 0.15                                              # of masked tokens

    def pair(self, sentences, marks, rng):
        return corrupt_spans(np.concatenate(sentences), marks, rng)

    def training_pair(self, sentences, marks, rng):
        return corrupt_spans(np.concatenate(sentences), marks, rng, self.training_rate)

    def measure(self, model, tokenizer, dataset):
        """Accuracy on masked tokens, given the true tokens before: the model's, an n-gram's."""
        right, by_n_gram = [], []
        not_masked = (IGNORE_INDEX, *self.mark_ids(tokenizer), self.special_ids(tokenizer)[-1])
        for inputs, lengths, outputs, targets in self.validation(dataset, tokenizer, model.config):
            masked = ~np.isin(targets, not_masked)                    # (B, T)
            logits = model(inputs, lengths, outputs)[masked]
            found = predicted_classes(self.name, logits, model)
            right.append(found == targets[masked])

        text = np.concatenate([tokenizer.encode(sentence) for sentence in self.sentences(dataset)])
        n_gram = KneserNey.fit(text, self.n_gram, len(tokenizer))
        for number, document in enumerate(dataset.held_out):
            ids = np.concatenate([tokenizer.encode(sentence) for sentence in document])
            by_n_gram.append(n_gram_is_right(n_gram, ids, self.masked_positions(len(ids), number)))
        return {"span_accuracy": float(np.concatenate(right).mean()),
                "n_gram_accuracy": float(np.concatenate(by_n_gram).mean())}

    def masked_positions(self, length, number):
        """The positions that the noise of a document hides: they depend on its length and index."""
        sentinels, rng = range(length, length + len(self.marks)), np.random.default_rng(number)
        _, target = self.pair([np.arange(length)], sentinels, rng)
        return target[target < length]


MODEL = dict(n_layers=2, n_heads=16, d_model=128, norm="rms_norm", norm_first=True, positions="t5",
              scaled_scores=False, bias=False, init_std=0.06, epsilon=1e-6)
TRAINING = dict(optimizer="muon", min_learning_rate=0.0, schedule="linear", momentum=0.95,
                 weight_decay=0.0, learning_rate=0.006, muon_ratio=2.0, warmup_steps=50,
                 eval_blocks=200)

PRESETS = {
    # Raffel et al. (2020), smaller: pre-norm with RMSNorm, no biases, a learned relative bias,
    # unscaled scores. Heads are narrow, since a step changes unscaled scores sqrt(D) times as much:
    # of three widths, 8 learned fastest and 32 slowest
    "t5": Preset(
        dict(MODEL, context_length=80),
        dict(TRAINING, steps=1700, batch_size=96, shards=8, eval_every=425, save_every=425),
        InstructionTask(), "EncoderDecoder",
        claims=tuple(more(instruction, 0.98) for instruction in INSTRUCTIONS)),
    # Its pretraining. A few minutes are not enough to beat the n-gram, so this is no claim
    "t5-spans": Preset(
        dict(MODEL, context_length=256),
        dict(TRAINING, steps=1200, batch_size=64, shards=4, eval_every=400, save_every=400),
        SpanTask(), "EncoderDecoder", claims=(more("span_accuracy"), more("n_gram_accuracy"))),
}
