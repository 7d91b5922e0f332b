"""Tasks of restoring documents from what a noise left of them."""

import hashlib
from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from numformer.datasets import library_sections
from numformer.tasks.pairs import SPECIAL, VALIDATION_BATCH, PairTask
from numformer.tokenizers import BytePairTokenizer
from numformer.training import NoiseStream, consecutive_pairs

MERGES = 1000
SENTENCES, MOST_CHARACTERS = 2, 240                                   # of a document: no token is shorter than a character


@dataclass(frozen=True)
class Documents:
    """Documents of a few sentences, to train on and held out.

    Parameters
    ----------
    name : str
    training, held_out : list of tuple of str
        Sentences, each with the end of its line.
    """

    name: str
    training: list
    held_out: list

    def __len__(self):
        """Characters in all."""
        return sum(len(sentence) for document in self.training + self.held_out for sentence in document)

    @property
    def sha256(self):
        """Checksum of all documents."""
        return hashlib.sha256(repr((self.training, self.held_out)).encode()).hexdigest()


class DocumentTask(PairTask):
    """Restore two sentences of the standard library's documentation. A subclass says its `name`, its `marks` and its noise."""

    kinds = ("EncoderDecoder",)
    longest = 160
    samples = 2
    marks = ()                                                        # names of special tokens that stand for what is hidden
    misread = 0.0                                                     # see `NoiseStream`

    @abstractmethod
    def pair(self, sentences, marks, rng):
        """(source, target): what is left of a document by a random noise, and what is to be said of it.

        Parameters
        ----------
        sentences : list of ndarray of int
        marks : list of int
            The ids of `marks`.
        rng : numpy.random.Generator
        """

    def pairs(self):
        return _documents()

    def tokenizer(self, material):
        """Byte pairs learned from the documents."""
        return BytePairTokenizer.of("".join(self.sentences(material)), MERGES, special=(*SPECIAL, *self.marks))

    def sentences(self, material):
        """All sentences to train on, each once, though two documents may hold it."""
        return list(dict.fromkeys(sentence for document in material.training for sentence in document))

    def mark_ids(self, tokenizer):
        """The ids of `marks`."""
        return [tokenizer.special_id(name) for name in self.marks]

    def stream(self, material, tokenizer, config, training):
        marks = self.mark_ids(tokenizer)
        return NoiseStream([[tokenizer.encode(sentence) for sentence in document] for document in material.training],
                           lambda sentences, rng: self.pair(sentences, marks, rng),
                           training.batch_size * training.accumulation, training.seed, *self.ids(tokenizer), self.misread)

    def validation(self, material, tokenizer, config, blocks=None):
        return consecutive_pairs(self.noised(material.held_out[:blocks], tokenizer), VALIDATION_BATCH, *self.ids(tokenizer))

    def noised(self, documents, tokenizer):
        """(source, target) ids of documents, by the noise that a document's number says."""
        marks = self.mark_ids(tokenizer)
        return [self.pair([tokenizer.encode(sentence) for sentence in document], marks, np.random.default_rng(number))
                for number, document in enumerate(documents)]

    def sample(self, model, tokenizer, rng):
        pairs = self.noised(self.pairs().held_out, tokenizer)
        chosen = [pairs[k][0] for k in rng.choice(len(pairs), size=min(self.samples, len(pairs)), replace=False)]
        return "\n".join(f"{tokenizer.decode(source)!r}\n-> {tokenizer.decode(answer)!r}"
                         for source, answer in zip(chosen, self.replies(model, tokenizer, chosen)))

    def shown(self):
        """A document of which the first mark hides the third word."""
        words = "".join(self.pairs().held_out[0]).split(" ")
        return " ".join([*words[:2], self.marks[0], *words[3:]])

    def source_ids(self, tokenizer, text):
        """The ids of a text in which the names of marks stand where something is hidden."""
        return tokenizer.encode_with(self.marks, text)


@lru_cache(maxsize=1)
def _documents():
    """For training a document begins at every sentence of a section but the last; held-out ones share none."""
    def cut(held_out, every):
        documents = [tuple(f"{sentence}\n" for sentence in section.sentences[first:first + SENTENCES])
                     for section in library_sections(held_out) for first in range(0, len(section.sentences) - SENTENCES + 1, every)]
        return [document for document in documents if sum(map(len, document)) <= MOST_CHARACTERS]
    return Documents("library documents", cut(False, every=1), cut(True, every=SENTENCES))
