"""The task of BART: restore documents whose sentences were mixed and whose spans were hidden."""

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from numformer.datasets import library_sections
from numformer.generation import write_greedily
from numformer.tasks.pairs import SPECIAL, VALIDATION_BATCH, PairTask
from numformer.tokenizers import BytePairTokenizer
from numformer.training import NoiseStream, consecutive_pairs, noise_document

MASK = "[MASK]"
MERGES = 1000
SENTENCES, MOST_CHARACTERS = 2, 240                                   # of a document: no token is shorter than a character
MEASURED = 200                                                        # held-out documents that are restored to be measured


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


class DenoiseTask(PairTask):
    """Two sentences of the standard library's documentation, in random order and with three tenths of their tokens hidden, as they were."""

    name = "denoise"
    kinds = ("EncoderDecoder",)
    longest = 160
    samples = 2

    def pairs(self):
        return _documents()

    def tokenizer(self, material):
        """Byte pairs learned from the documents."""
        text = "".join(sentence for document in material.training for sentence in document)
        return BytePairTokenizer.of(text, MERGES, special=(*SPECIAL, MASK))

    def stream(self, material, tokenizer, config, training):
        mask = tokenizer.special_id(MASK)
        return NoiseStream([[tokenizer.encode(sentence) for sentence in document] for document in material.training],
                           lambda sentences, rng: noise_document(sentences, mask, rng), training.batch_size * training.accumulation,
                           training.seed, *self.ids(tokenizer))

    def validation(self, material, tokenizer, config, blocks=None):
        return consecutive_pairs(self.noised(material.held_out[:blocks], tokenizer), VALIDATION_BATCH, *self.ids(tokenizer))

    def noised(self, documents, tokenizer):
        """(noised, whole) ids of documents, by a noise that is always the same: that of a document's number."""
        mask = tokenizer.special_id(MASK)
        return [noise_document([tokenizer.encode(sentence) for sentence in document], mask, np.random.default_rng(number))
                for number, document in enumerate(documents)]

    def sample(self, model, tokenizer, rng):
        pairs = self.noised(self.pairs().held_out, tokenizer)
        chosen = [pairs[k][0] for k in rng.choice(len(pairs), size=min(self.samples, len(pairs)), replace=False)]
        return "\n".join(f"{tokenizer.decode(noised)!r}\n-> {tokenizer.decode(restored)!r}"
                         for noised, restored in zip(chosen, self.restored(model, tokenizer, chosen)))

    def written(self, model, tokenizer, sources):
        """What a model makes of texts in which the name of the mask stands where something is hidden."""
        mask = [tokenizer.special_id(MASK)]
        ids = [np.concatenate([part for text in source.split(MASK) for part in (tokenizer.encode(text), mask)][:-1]) for source in sources]
        return self.restored(model, tokenizer, ids)

    def restored(self, model, tokenizer, sources):
        """What a model makes of noised ids, greedily."""
        written = []
        for first in range(0, len(sources), VALIDATION_BATCH):
            written += write_greedily(model, sources[first:first + VALIDATION_BATCH], *self.ids(tokenizer), longest=self.longest)
        return written

    def measure(self, model, tokenizer, material):
        """How like the documents are to what the model restored, and to the noised documents themselves without their masks: copied."""
        sources, targets = zip(*self.noised(material.held_out[:MEASURED], tokenizer))
        restored, mask = self.restored(model, tokenizer, list(sources)), tokenizer.special_id(MASK)
        return {
            "restored": float(np.mean([likeness(ids, target) for ids, target in zip(restored, targets)])),
            "copied": float(np.mean([likeness(source[source != mask], target) for source, target in zip(sources, targets)])),
            "exact": float(np.mean([np.array_equal(ids, target) for ids, target in zip(restored, targets)])),
        }


def likeness(one, other):
    r"""How much of two sequences of ids is alike.

    .. math:: 1 - \frac{\text{edits}}{\max(\text{lengths})}

    where the edits (insert, delete, replace) are the fewest that make one of the other.

    Examples
    --------
    >>> likeness(np.array([1, 2, 3, 4]), np.array([1, 3, 4])), likeness(np.array([1, 2]), np.array([3, 4]))
    (0.75, 0.0)
    """
    place = np.arange(len(other) + 1)
    edits = place                                                     # from nothing to each beginning of the other
    for count, token in enumerate(one, 1):
        row = np.minimum(edits + 1, np.append(count, edits[:-1] + (other != token)))      # delete; replace, or keep
        edits = np.minimum.accumulate(row - place) + place            # insert any number
    return 1 - int(edits[-1]) / max(len(one), len(other), 1)


@lru_cache(maxsize=1)
def _documents():
    def cut(held_out):
        documents = [tuple(f"{sentence}\n" for sentence in section.sentences[first:first + SENTENCES])
                     for section in library_sections(held_out) for first in range(0, len(section.sentences) - SENTENCES + 1, SENTENCES)]
        return [document for document in documents if sum(map(len, document)) <= MOST_CHARACTERS]
    return Documents("library documents", cut(False), cut(True))
