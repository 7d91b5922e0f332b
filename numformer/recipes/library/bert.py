"""BERT, RoBERTa and ModernBERT in small: masked language models of the library's texts."""

import numpy as np

from numformer.backend import one_blas_thread
from numformer.data import (
    Curriculum, MaskedStream, consecutive_masked_rows, library_sections, mask_tokens,
    next_sentence_pairs, passage_rows, repeated_passages)
from numformer.finite import predicted_classes
from numformer.functional import IGNORE_INDEX
from numformer.models import KneserNey
from numformer.recipes.library.library_task import (
    VALIDATION_BATCH, LibraryTask, special_ids, word_after)
from numformer.recipes.preset import Preset, more
from numformer.recipes.bert_recipes import BertRecipe

ROUNDS = 8                                                            # pairs from each cut
EASY_ROUNDS = 2                                                       # of the easy pairs
CHARACTERS = 240                                                      # of a passage
MEASURED_RATE = 0.15                                                  # of masked tokens: BERT's
N_GRAM = 5                                                            # longer ones are no better


class MaskedTask(LibraryTask):
    """Masked language modelling, with next-sentence prediction for models that have it.

    The loss is the mean over masked tokens, plus that of next-sentence prediction over rows. A
    model with `next_sentence` trains on pairs of passages, half of which are consecutive. One
    without trains on blocks: all sections in a row, cut to the context length.
    """

    name = "masked"
    unit = "nats"
    recipe = BertRecipe()

    def rows(self, tokenizer, config, held_out, easy=False):
        """The `PassageRows` of one part of the library; easy ones are of `repeated_passages`."""
        layout = self.layout(tokenizer)
        if not config.next_sentence:
            ids, most = section_ids(tokenizer, held_out), self.max_tokens(config)
            blocks = [(ids[first : first + most],) for first in range(0, len(ids), most)]
            return passage_rows(blocks, config.context_length, *layout)
        cuts = sum(len(section.sentences) - 1 for section in library_sections(held_out))
        rounds = 1 if held_out else EASY_ROUNDS if easy else ROUNDS
        pairs = [pair for seed in range(rounds)
                 for pair in next_sentence_pairs(cuts // 2 * 2, seed, CHARACTERS, held_out)]
        first, second, follows = zip(*(repeated_passages(pairs, seed=0) if easy else pairs))
        passages = list(zip(self.encoded(tokenizer, first), self.encoded(tokenizer, second)))
        return passage_rows(passages, config.context_length, *layout, follows)

    def held_out_rows(self, tokenizer, config):
        return self.rows(tokenizer, config, held_out=True)

    def masks(self, tokenizer, rate):
        """The arguments of `mask_tokens`."""
        return dict(special=[tokenizer.special_id(name) for name in tokenizer.special],
                    vocab_size=len(tokenizer), mask_id=special_ids(tokenizer)[3], rate=rate)

    def stream(self, dataset, tokenizer, config, training):
        recipe = self.recipe

        def stream_of(easy):
            rows = self.rows(tokenizer, config, held_out=False, easy=easy)
            return MaskedStream(rows, batch_size=training.batch_size * training.accumulation,
                                seed=training.seed, dynamic=recipe.dynamic_masks,
                                **self.masks(tokenizer, recipe.mask_rate))

        if not (config.next_sentence and recipe.repeat_steps):
            return stream_of(easy=False)
        return Curriculum(stream_of(easy=True), stream_of(easy=False), recipe.repeat_steps,
                          training.seed)

    def validation(self, dataset, tokenizer, config, blocks=None):
        rows = self.rows(tokenizer, config, held_out=True)
        rows = type(rows)(*(array[:blocks] for array in rows))
        return consecutive_masked_rows(rows, batch_size=VALIDATION_BATCH,
                                       **self.masks(tokenizer, self.recipe.mask_rate))

    def sample(self, model, tokenizer, rng):
        """A held-out row with predictions in brackets; after a wrong one, a bar and the token."""
        rows = self.rows(tokenizer, model.config, held_out=True)
        row = rows.take([int(rng.integers(len(rows.ids)))])
        inputs, targets = mask_tokens(row.ids, rng=rng, **self.masks(tokenizer, MEASURED_RATE))
        logits = model.masked_logits(inputs, row.segments)
        guesses = predicted_classes(self.name, logits, model)[0]
        before, words = row.ids[0][0], [tokenizer.decode(row.ids[0][:1])]             # [CLS]
        for token, target, guess in zip(row.ids[0][1:], targets[0][1:], guesses[1:]):
            word, guessed = (word_after(tokenizer, before, each) for each in (token, guess))
            shown = f"[{guessed}]" if guess == token else f"[{guessed}|{word}]"
            words.append(word if target == IGNORE_INDEX else shown)
            before = token
        return "".join(words)

    def answer(self, model, tokenizer, text):
        """The text with each mask filled by its most probable token, independently."""
        ids, mask = self.row(tokenizer, model.config, text), special_ids(tokenizer)[3]
        guesses = predicted_classes(self.name, model.masked_logits(ids), model)[0]
        filled = np.where(ids[0] == mask, guesses, ids[0])
        words = [word_after(tokenizer, *pair) if n else tokenizer.decode(pair[1:])
                 for n, pair in enumerate(zip(filled, filled[1:-1]))]             # no class token
        words = [f"[{word}]" if token == mask else word for word, token in zip(words, ids[0][1:])]
        return "".join(words), int((ids == mask).sum())

    def measure(self, model, tokenizer, dataset):
        """Accuracy on masked tokens: the model's, and that of an n-gram, which sees the left."""
        right, by_n_gram, follows = [], [], []
        n_gram = KneserNey.fit(section_ids(tokenizer, held_out=False), N_GRAM, len(tokenizer))
        rows = self.rows(tokenizer, model.config, held_out=True)
        for batch in consecutive_masked_rows(rows, batch_size=VALIDATION_BATCH,
                                             **self.masks(tokenizer, MEASURED_RATE)):
            masked = batch.targets != IGNORE_INDEX                    # (B, T)
            with one_blas_thread():
                x = model(batch.inputs, batch.segments, batch.lengths)
                guesses = predicted_classes(self.name, model.head(x[masked]), model)
                right.append(guesses == batch.targets[masked])
                if model.next_sentence is not None:
                    logits = model.next_sentence(model.pooler(x))
                    verdicts = predicted_classes(self.name, logits, model)
                    follows.append(verdicts == batch.follows)
            ids = np.where(masked, batch.targets, batch.inputs)
            ids[:, 0] = special_ids(tokenizer)[2]                     # as in the n-gram's text
            by_n_gram += [n_gram_is_right(n_gram, row, np.flatnonzero(positions))
                          for row, positions in zip(ids, masked)]
        measures = {"masked_accuracy": right, "n_gram_accuracy": by_n_gram,
                    "next_sentence_accuracy": follows}
        return {name: float(np.concatenate(parts).mean())
                for name, parts in measures.items() if parts}


def n_gram_is_right(n_gram, ids, positions):
    """Whether an n-gram model predicts the tokens at these positions, given those before each."""
    return np.array([n_gram.distribution(ids[max(0, t - n_gram.n + 1) : t]).argmax() == ids[t]
                     for t in positions], bool)


def section_ids(tokenizer, held_out):
    """All sections of one part of the library in a row, with a separator after each."""
    separator = [special_ids(tokenizer)[2]]
    return np.concatenate([ids for section in library_sections(held_out)
                           for ids in (tokenizer.encode(" ".join(section.sentences)), separator)])


_MASKED = MaskedTask()
_BACKBONE = dict(n_layers=3, n_heads=4, d_model=128, positions="rotary", init_std=0.05)
BERT = dict(_BACKBONE, context_length=112)
CONTENT = dict(content_layers=1, like_to_like=True)
LIBRARY = dict(optimizer="muon", batch_size=32, learning_rate=0.01, min_learning_rate=0.0,
               warmup_steps=50, schedule="linear", momentum=0.95, weight_decay=0.0, muon_ratio=3.0,
               eval_every=500, save_every=500)
_ROBERTA = dict(_BACKBONE, context_length=64, segments=0, next_sentence=False)
_MASKS = dict(dynamic_masks=True, mask_rate=0.3)
_BETTER = more("masked_accuracy", beats="n_gram_accuracy")

PRESETS = {
    # BERT's inputs, norms and losses, with changes for a run of minutes. With rotary positions the
    # loss leaves the plateau of unigram frequencies within 150 steps (with learned ones it is still
    # there after 350). Whether passages belong together shows in the words that they share, not in
    # any single word: with the other three changes the model finds this in 400 steps, without any
    # one of them it did not in 500 to 900 (passages of 120 characters)
    "bert": Preset(
        BERT, dict(LIBRARY, steps=2000, learning_rate=0.004), _MASKED, "Bert",
        recipe=dict(CONTENT, repeat_steps=1000),
        claims=(_BETTER, more("next_sentence_accuracy", 0.8))),
    "roberta": Preset(
        _ROBERTA, dict(LIBRARY, steps=3000), _MASKED, "Bert", recipe=_MASKS, claims=(_BETTER,)),
    "modernbert": Preset(
        dict(_ROBERTA, norm_first=True, feedforward="geglu", bias=False, sliding_window=9,
             layer_types="full_attention,sliding_attention,sliding_attention"),
        dict(LIBRARY, steps=3000), _MASKED, "Bert", recipe=_MASKS, claims=(_BETTER,)),
}
