"""The task of BART: restore documents whose tokens or spans were hidden, or whose sentences were mixed as well."""

import hashlib
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from numformer.datasets import library_sections
from numformer.generation import write_greedily
from numformer.tasks.pairs import SPECIAL, VALIDATION_BATCH, PairTask
from numformer.tokenizers import BytePairTokenizer
from numformer.training import NoiseStream, consecutive_pairs, hide_tokens, infill, noise_document

MASK = "[MASK]"
MERGES = 1000
SENTENCES, MOST_CHARACTERS = 2, 240                                   # of a document: no token is shorter than a character
MEASURED = 200                                                        # held-out documents that are restored after each noise
RATE = 0.3                                                            # of tokens that are hidden


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


def _in_order(noise, sentences, mask, rng):
    whole = np.concatenate(sentences)
    return noise(whole, mask, rng, RATE), whole


NOISES = {                                                            # each (sentences, mask, rng) -> (source, target)
    "masked": partial(_in_order, hide_tokens),
    "infilled": partial(_in_order, infill),
    "permuted": partial(noise_document, rate=RATE),
}


class DenoiseTask(PairTask):
    """Two sentences of the standard library's documentation, as they were before a noise that hid three tenths of their tokens.

    One in three documents has single tokens masked, one spans infilled, one its sentences in random order and then spans infilled.
    """

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
                           lambda sentences, rng: NOISES[rng.choice(list(NOISES))](sentences, mask, rng),
                           training.batch_size * training.accumulation, training.seed, *self.ids(tokenizer))

    def validation(self, material, tokenizer, config, blocks=None):
        return consecutive_pairs(self.noised(material.held_out[:blocks], tokenizer), VALIDATION_BATCH, *self.ids(tokenizer))

    def noised(self, documents, tokenizer, noises=tuple(NOISES)):
        """(noised, whole) ids of documents, by noises that take turns, and draw what a document's number says."""
        mask = tokenizer.special_id(MASK)
        return [NOISES[noises[number % len(noises)]]([tokenizer.encode(sentence) for sentence in document], mask,
                                                     np.random.default_rng(number)) for number, document in enumerate(documents)]

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
        """How like the documents are to what the model restored after each noise, and to the copied source without its masks."""
        measured, mask = {}, tokenizer.special_id(MASK)
        for noise in NOISES:
            sources, targets = zip(*self.noised(material.held_out[:MEASURED], tokenizer, (noise,)))
            restored, copied = self.restored(model, tokenizer, list(sources)), [source[source != mask] for source in sources]
            for name, texts in (("restored", restored), ("copied", copied)):
                measured[f"{name}_{noise}"] = float(np.mean([likeness(ids, target) for ids, target in zip(texts, targets)]))
        return measured


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
