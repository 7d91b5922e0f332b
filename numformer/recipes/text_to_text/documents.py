"""What tasks of corrupted documents share: two sentences of the library to restore."""

import hashlib
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from numformer.data import BytePairTokenizer, NoiseStream, consecutive_pairs, library_sections
from numformer.recipes.text_to_text.pairs import SPECIAL, VALIDATION_BATCH, PairTask

MERGES = 1000
SENTENCES, MOST_CHARACTERS = 2, 240                                   # of a document


@dataclass(frozen=True)
class Documents:
    """A dataset of documents of a few sentences.

    Parameters
    ----------
    name : str
    training, held_out : list of tuple of str
        Sentences, each with a newline.
    """

    name: str
    training: list
    held_out: list

    def __len__(self):
        """Characters in all."""
        return sum(len(sentence) for document in self.training + self.held_out
                   for sentence in document)

    @property
    def sha256(self):
        """Checksum of all documents."""
        return hashlib.sha256(repr((self.training, self.held_out)).encode()).hexdigest()


class DocumentTask(PairTask):
    """Restore corrupted documents. A subclass has a `name`, `marks` and a `pair`.

    Attributes
    ----------
    marks : tuple of str
        Special tokens that replace what is hidden.
    wrong_inputs : float
        As in `NoiseStream`.
    """

    longest = 160
    samples = 2
    marks = ()
    wrong_inputs = 0.0

    @abstractmethod
    def pair(self, sentences, marks, rng):
        """(source, target): a document after random noise, and what the model has to write.

        Parameters
        ----------
        sentences : list of ndarray of int
        marks : list of int
            The ids of `marks`.
        rng : numpy.random.Generator
        """

    def training_pair(self, sentences, marks, rng):
        """The same for training, where a subclass may hide more than is measured."""
        return self.pair(sentences, marks, rng)

    def pairs(self):
        return _documents()

    def tokenizer(self, dataset):
        """Byte pairs learned from the documents."""
        text = "".join(self.sentences(dataset))
        return BytePairTokenizer.of(text, MERGES, special=(*SPECIAL, *self.marks))

    def sentences(self, dataset):
        """All sentences to train on, each once, though two documents may share one."""
        return list(dict.fromkeys(sentence for document in dataset.training
                                  for sentence in document))

    def options(self, tokenizer):
        self.mark_ids(tokenizer)                      # ValueError if it has no such tokens
        return super().options(tokenizer)

    def mark_ids(self, tokenizer):
        """The ids of `marks`."""
        return [tokenizer.special_id(name) for name in self.marks]

    def stream(self, dataset, tokenizer, config, training):
        marks = self.mark_ids(tokenizer)
        documents = [[tokenizer.encode(sentence) for sentence in document]
                     for document in dataset.training]
        return NoiseStream(documents,
                           lambda sentences, rng: self.training_pair(sentences, marks, rng),
                           training.batch_size * training.accumulation, training.seed,
                           *self.special_ids(tokenizer), self.wrong_inputs)

    def validation(self, dataset, tokenizer, config, blocks=None):
        pairs = self.noised(dataset.held_out[:blocks], tokenizer)
        return consecutive_pairs(pairs, VALIDATION_BATCH, *self.special_ids(tokenizer))

    def noised(self, documents, tokenizer):
        """(source, target) ids of documents; the index of a document seeds its noise."""
        marks = self.mark_ids(tokenizer)
        return [self.pair([tokenizer.encode(sentence) for sentence in document], marks,
                          np.random.default_rng(number))
                for number, document in enumerate(documents)]

    def sample(self, model, tokenizer, rng):
        pairs = self.noised(self.pairs().held_out, tokenizer)
        chosen = rng.choice(len(pairs), size=min(self.samples, len(pairs)), replace=False)
        sources = [pairs[k][0] for k in chosen]
        answers = self.replies(model, tokenizer, sources)
        return "\n".join(f"{tokenizer.decode(source)!r}\n-> {tokenizer.decode(answer)!r}"
                         for source, answer in zip(sources, answers))

    def shown(self):
        """A document in which the first mark hides the third word."""
        words = "".join(self.pairs().held_out[0]).split(" ")
        return " ".join([*words[:2], self.marks[0], *words[3:]])

    def source_ids(self, tokenizer, text):
        """The ids of a text in which the names of marks mean the marks."""
        return tokenizer.encode_with(self.marks, text)


@lru_cache(maxsize=1)
def _documents():
    """Training documents overlap: one begins at each sentence. Held-out ones share no sentence."""
    def cut(held_out, every):
        documents = []
        for _, sentences in library_sections(held_out):
            for first in range(0, len(sentences) - SENTENCES + 1, every):
                document = sentences[first : first + SENTENCES]
                documents.append(tuple(f"{sentence}\n" for sentence in document))
        return [document for document in documents if sum(map(len, document)) <= MOST_CHARACTERS]
    return Documents("library documents", cut(False, every=1), cut(True, every=SENTENCES))
