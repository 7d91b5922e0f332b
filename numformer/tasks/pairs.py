"""Tasks of pairs: read a text, and write another."""

import hashlib
from dataclasses import dataclass

import numpy as np

from numformer.generation import write_greedily
from numformer.plots.views import Reading, attention_views
from numformer.tasks.task import Task
from numformer.tokenizers import CharacterTokenizer
from numformer.training import PairStream, consecutive_pairs
from numformer.training.epochs import POOL

PAD, BEGIN, END = SPECIAL = "[PAD]", "[BEGIN]", "[END]"
VALIDATION_BATCH = 100
CUT = "\u2026"                                                        # a label where an answer was cut off


@dataclass(frozen=True)
class Pairs:
    """Pairs of texts, to train on and held out.

    Parameters
    ----------
    name : str
    training, held_out : list of (str, str)
    """

    name: str
    training: list
    held_out: list

    def __len__(self):
        """Characters in all."""
        return sum(len(source) + len(target) for source, target in self.training + self.held_out)

    @property
    def sha256(self):
        """Checksum of all pairs."""
        return hashlib.sha256(repr((self.training, self.held_out)).encode()).hexdigest()


class PairTask(Task):
    """Train a model that reads and writes; measured by the loss, and by how many held-out answers are exactly right.

    A model has ``loss(PairBatch)``, ``begin(inputs, lengths)`` and ``step(ids, cache)``: see `write_greedily`. A subclass says its
    `name`, its `kinds` and its `pairs`.
    """

    from_the_data = frozenset({"vocab_size"})
    longest = 64                                                      # answers: pieces after which a model is stopped
    samples = 4
    alignment = None                                                  # title of the picture of one; None for none
    pool = POOL                                                       # batches whose pairs are sorted by length together

    def pairs(self):
        """The `Pairs`, made by rule."""
        raise TypeError(f"{type(self).__name__}: a subclass has to say its pairs.")

    def load(self, data):
        return super().load(data) if data is not None else self.pairs()

    def tokenizer(self, material):
        """Characters, unless a subclass knows better."""
        return CharacterTokenizer.of("".join(map("".join, material.training + material.held_out)), special=SPECIAL)

    def stream(self, material, tokenizer, config, training):
        return PairStream(self.encoded(material.training, tokenizer), training.batch_size * training.accumulation, training.seed,
                          *self.ids(tokenizer), self.pool)

    def validation(self, material, tokenizer, config, blocks=None):
        pairs = material.held_out if blocks is None else material.held_out[:blocks]
        return consecutive_pairs(self.encoded(pairs, tokenizer), VALIDATION_BATCH, *self.ids(tokenizer))

    def encoded(self, pairs, tokenizer):
        """Pairs of texts as pairs of ids."""
        return [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in pairs]

    def ids(self, tokenizer):
        """Those of padding, of the begin and of the end."""
        return tuple(map(tokenizer.special_id, SPECIAL))

    def answers(self, model, tokenizer, sources):
        """What a model writes for each source text."""
        return [tokenizer.decode(ids) for ids in self.written(model, tokenizer, sources)]

    def written(self, model, tokenizer, sources):
        """The ids of its answers, written greedily."""
        return self.replies(model, tokenizer, [self.source_ids(tokenizer, source) for source in sources])

    def replies(self, model, tokenizer, sources):
        """The same for sources that are ids already."""
        written = []
        for first in range(0, len(sources), VALIDATION_BATCH):
            written += write_greedily(model, sources[first:first + VALIDATION_BATCH], *self.ids(tokenizer), longest=self.longest)
        return written

    def answer(self, model, tokenizer, text):
        (ids,) = self.written(model, tokenizer, [text])
        return tokenizer.decode(ids), len(ids)

    def reading(self, model, tokenizer, text=None):
        """A source, the first of the held-out ones unless given, and what the model writes after it."""
        text = self.shown() if text is None else text
        source = self.source_ids(tokenizer, text)
        if not len(source):
            raise ValueError("there is nothing to read; give at least one token.")
        if (room := self.room(model.config)) is not None and len(source) > room:
            raise ValueError(f"a text of {len(source)} pieces does not fit a model that was made for {room}; choose a part of it.")
        (answer,) = self.written(model, tokenizer, [text])
        _, begin, end = self.ids(tokenizer)
        read, written = ([tokenizer.decode([token]) for token in ids] for ids in (source, [begin, *answer]))
        written.append(tokenizer.decode([end]) if len(answer) < self.longest else CUT)
        return Reading((source[None], np.array([len(source)]), np.array([[begin, *answer]])), read, written)

    def shown(self):
        """The source of a picture."""
        return self.pairs().held_out[0][0]

    def sample(self, model, tokenizer, rng):
        pairs = self.pairs().held_out
        chosen = [pairs[k][0] for k in rng.choice(len(pairs), size=min(self.samples, len(pairs)), replace=False)]
        return "\n".join(f"{source} -> {answer}" for source, answer in zip(chosen, self.answers(model, tokenizer, chosen)))

    def pictures(self, model, tokenizer):
        """Where the last block looked in the source for each piece that it wrote, mean of its heads."""
        if self.alignment is None or getattr(model.config, "attention", None) == "none":
            return {}
        from numformer.plots import alignment_map

        *_, cross = attention_views(model, self.reading(model, tokenizer))
        return {"alignment.png": alignment_map(cross.weights[-1].mean(axis=0), cross.keys, cross.queries, title=self.alignment)}

    def measure(self, model, tokenizer, material):
        """The part of the held-out answers that are right to the last character."""
        right = self.right(model, tokenizer, material.held_out)
        return {"exact": sum(right) / len(right)}

    def right(self, model, tokenizer, pairs):
        """Of each pair, whether the answer is right to the last character: a list of bool."""
        sources, targets = zip(*pairs)
        return [answer == target for answer, target in zip(self.answers(model, tokenizer, list(sources)), targets)]
