"""The task of BERT: guess hidden tokens, and say whether one passage follows another."""

import numpy as np

from numformer.backend import one_blas_thread
from numformer.datasets import library_sections, next_sentence_pairs, repeated_passages
from numformer.functional import IGNORE_INDEX
from numformer.models import KneserNey
from numformer.tasks.library import MASK, SEPARATOR, VALIDATION_BATCH, LibraryTask
from numformer.training import BertStream, Curriculum, consecutive_masked_rows, mask_tokens, passage_rows

ROUNDS = 8                                                            # times that every place where a section can be cut gives a pair
EASY_ROUNDS = 2                                                       # the same for repetitions
CHARACTERS = 240                                                      # of a passage: enough to tell what it is about
MEASURED_RATE = 0.15                                                  # of hidden tokens, whatever a model was trained with: BERT's
N_GRAM = 5                                                            # longer ones guess no better on the held-out texts


class MaskedTask(LibraryTask):
    """Train on the library's texts; the loss is the mean over hidden tokens, plus that over rows where a model looks for what follows.

    A model with `next_sentence` learns from pairs of passages, half of which follow each other. One without learns from blocks: all
    sections in a row, cut to the context length.
    """

    name = "masked"
    kinds = ("Bert",)
    unit = "nats"

    def rows(self, tokenizer, config, held_out, easy=False):
        """The `BertRows` of one part of the library; easy ones are of `repeated_passages`."""
        layout = self.layout(tokenizer)
        if not config.next_sentence:
            ids, room = section_ids(tokenizer, held_out), config.context_length - 2
            return passage_rows([(ids[first:first + room],) for first in range(0, len(ids), room)], config.context_length, *layout)
        cuts = sum(len(section.sentences) - 1 for section in library_sections(held_out))
        rounds = 1 if held_out else EASY_ROUNDS if easy else ROUNDS
        pairs = [pair for seed in range(rounds) for pair in next_sentence_pairs(cuts // 2 * 2, seed, CHARACTERS, held_out)]
        first, second, follows = zip(*(repeated_passages(pairs, seed=0) if easy else pairs))
        passages = list(zip(self.encoded(tokenizer, first), self.encoded(tokenizer, second)))
        return passage_rows(passages, config.context_length, *layout, follows)

    def masks(self, tokenizer, rate):
        """What `mask_tokens` needs to know."""
        return {"special": range(len(tokenizer.special)), "vocab_size": len(tokenizer), "mask_id": tokenizer.special_id(MASK), "rate": rate}

    def stream(self, material, tokenizer, config, training):
        def stream_of(easy):
            return BertStream(self.rows(tokenizer, config, held_out=False, easy=easy), seed=training.seed, dynamic=config.dynamic_masks,
                              batch_size=training.batch_size * training.accumulation, **self.masks(tokenizer, config.mask_rate))

        if not (config.next_sentence and config.repeat_steps):
            return stream_of(easy=False)
        return Curriculum(stream_of(easy=True), stream_of(easy=False), config.repeat_steps, training.seed)

    def validation(self, material, tokenizer, config, blocks=None):
        rows = self.rows(tokenizer, config, held_out=True)
        if blocks is not None:
            rows = type(rows)(*(array[:blocks] for array in rows))
        return consecutive_masked_rows(rows, batch_size=VALIDATION_BATCH, **self.masks(tokenizer, config.mask_rate))

    def sample(self, model, tokenizer, rng):
        """A held-out row with its guesses: right ones in brackets, wrong ones with the truth after a bar."""
        rows = self.rows(tokenizer, model.config, held_out=True)
        row = int(rng.integers(len(rows.ids)))
        ids = rows.ids[row:row + 1, :rows.lengths[row]]
        inputs, targets = mask_tokens(ids, rng=rng, **self.masks(tokenizer, MEASURED_RATE))
        guesses = model.masked_logits(inputs, rows.segments[row:row + 1, :rows.lengths[row]])[0].argmax(axis=-1)
        words = []
        for truth, hidden, guess in zip(ids[0], targets[0] != IGNORE_INDEX, guesses):
            right, said = tokenizer.decode([truth]), tokenizer.decode([guess])
            words.append(right if not hidden else f"[{said}]" if guess == truth else f"[{said}|{right}]")
        return "".join(words)

    def answer(self, model, tokenizer, text):
        """The text with its masks filled: each by the likeliest token in that place, whatever stands in the others."""
        ids, mask = self.row(tokenizer, model.config, text), tokenizer.special_id(MASK)
        guesses = model.masked_logits(ids)[0].argmax(axis=-1)
        words = [f"[{tokenizer.decode([guess])}]" if token == mask else tokenizer.decode([token]) for token, guess in zip(ids[0], guesses)]
        return "".join(words[1:-1]), int((ids == mask).sum())         # without the class token and the separator

    def measure(self, model, tokenizer, material):
        """How many hidden tokens of the held-out texts are guessed, by the model from both sides and by an n-gram from the left alone."""
        right, by_n_gram, follows = [], [], []
        n_gram = KneserNey.fit(section_ids(tokenizer, held_out=False), N_GRAM, len(tokenizer))
        rows = self.rows(tokenizer, model.config, held_out=True)
        for batch in consecutive_masked_rows(rows, batch_size=VALIDATION_BATCH, **self.masks(tokenizer, MEASURED_RATE)):
            hidden = batch.targets != IGNORE_INDEX                    # (B, T)
            with one_blas_thread():
                x = model(batch.inputs, batch.segments, batch.lengths)
                right.append(model.head(x[hidden]).argmax(axis=-1) == batch.targets[hidden])
                if model.next_sentence is not None:
                    follows.append(model.next_sentence(model.pooler(x)).argmax(axis=-1) == batch.follows)
            ids = np.where(hidden, batch.targets, batch.inputs)
            ids[:, 0] = tokenizer.special_id(SEPARATOR)               # an n-gram knows no other begin of a passage
            by_n_gram += [n_gram_is_right(n_gram, row, np.flatnonzero(places)) for row, places in zip(ids, hidden)]
        measured = {"masked_accuracy": right, "n_gram_accuracy": by_n_gram, "next_sentence_accuracy": follows}
        return {name: float(np.concatenate(values).mean()) for name, values in measured.items() if values}


def n_gram_is_right(n_gram, ids, places):
    """Whether an n-gram's best guess at each of these places of a text is the token there, given the true tokens before it."""
    return np.array([n_gram.distribution(ids[max(0, t - N_GRAM + 1):t]).argmax() == ids[t] for t in places], bool)


def section_ids(tokenizer, held_out):
    """All sections of one part of the library in a row, with a separator after each."""
    separator = [tokenizer.special_id(SEPARATOR)]
    return np.concatenate([ids for section in library_sections(held_out)
                           for ids in (tokenizer.encode(" ".join(section.sentences)), separator)])
