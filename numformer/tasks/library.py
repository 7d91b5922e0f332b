"""What the tasks on the standard library's texts share: byte pairs, special tokens, and quick encoding of many passages."""

from functools import lru_cache

import numpy as np

from numformer.datasets import library_sections, library_text
from numformer.plots.views import Reading
from numformer.tasks.task import Task
from numformer.tokenizers import BytePairTokenizer
from numformer.training import passage_rows

PAD, CLASS, SEPARATOR, MASK = SPECIAL = "[PAD]", "[CLS]", "[SEP]", "[MASK]"
N_MERGES = 1740                                                       # with the bytes and the special tokens, 2,000 ids
VALIDATION_BATCH = 64


class LibraryTask(Task):
    """A task on `library_sections`: trained on one part of them, measured on the held-out ones."""

    from_the_data = frozenset({"vocab_size"})

    def load(self, data):
        return super().load(data) if data is not None else library_text()

    def tokenizer(self, material):
        return _tokenizer(N_MERGES)

    def layout(self, tokenizer):
        """The ids of padding, of the begin of a row, and of the end of a passage."""
        return tuple(map(tokenizer.special_id, (PAD, CLASS, SEPARATOR)))

    def encoded(self, tokenizer, texts):
        """The ids of each text. A text that comes again is encoded once."""
        known = {text: tokenizer.encode(text) for text in set(texts)}
        return [known[text] for text in texts]

    def reading(self, model, tokenizer, text=None):
        """A text, or the first of the held-out ones."""
        ids = self.row(tokenizer, model.config, " ".join(library_sections(held_out=True)[0].sentences[:2]) if text is None else text)
        return Reading((ids,), [tokenizer.decode([token]) for token in ids[0]])

    def source_ids(self, tokenizer, text):
        """The ids of a text. Where it spells a special token's name stands that token."""
        return tokenizer.encode_with(SPECIAL, text)

    def room(self, config):
        return config.context_length - 2                              # beside the class token and the separator

    def row(self, tokenizer, config, text):
        """The ids of one text as a row, (1, T)."""
        ids = self.source_ids(tokenizer, text)
        if len(ids) > self.room(config):
            raise ValueError(f"a text of {len(ids)} tokens is too long for this model, which has room for {self.room(config)}; shorten it.")
        return passage_rows([(ids,)], config.context_length, *self.layout(tokenizer)).ids


@lru_cache(maxsize=4)
def _tokenizer(n_merges):
    """Learnt from the training part alone."""
    return BytePairTokenizer.of(library_text(held_out=False).text, n_merges, special=SPECIAL)


def in_batches(function, arrays, size=VALIDATION_BATCH):
    """A function of a few rows at a time, and its results in one array."""
    return np.concatenate([function(*(array[first:first + size] for array in arrays)) for first in range(0, len(arrays[0]), size)])
