"""What tasks on the standard library's texts share: byte pairs, special tokens, and rows."""

from functools import lru_cache

import numpy as np

from numformer.analysis.attention_views import Reading
from numformer.data import BytePairTokenizer, library_sections, library_text, passage_rows
from numformer.recipes.task import Task

SPECIAL = "[PAD]", "[CLS]", "[SEP]", "[MASK]"                         # ours, and BERT's
PUBLISHED = (SPECIAL, ("<pad>", "<s>", "</s>", "<mask>"))             # the second are RoBERTa's
N_MERGES = 1740                                                       # 2,000 ids in all
VALIDATION_BATCH = 64


class LibraryTask(Task):
    """A task on `library_sections`: trained on one part of them, measured on the held-out ones."""

    from_the_data = frozenset({"vocab_size"})

    def load(self, data):
        return super().load(data) if data is not None else library_text()

    def tokenizer(self, dataset):
        return library_tokenizer()

    def options(self, tokenizer):
        special_names(tokenizer)                      # refuses a tokenizer without them
        return super().options(tokenizer)

    def layout(self, tokenizer):
        """The ids of the padding, class and separator tokens."""
        return special_ids(tokenizer)[:3]

    def separator(self, tokenizer):
        return self.layout(tokenizer)[2]

    def encoded(self, tokenizer, texts):
        """The token ids of each text; repeated texts are encoded once."""
        known = {text: tokenizer.encode(text) for text in set(texts)}
        return [known[text] for text in texts]

    def single_rows(self, tokenizer, config, texts):
        """The `PassageRows` of texts, one a row."""
        passages = [(ids,) for ids in self.encoded(tokenizer, texts)]
        return passage_rows(passages, row_length(config), *self.layout(tokenizer))

    def reading(self, model, tokenizer, text=None):
        """A text, by default the first of the held-out ones."""
        if text is None:                              # cut, if it is too long
            text = " ".join(library_sections(held_out=True)[0].sentences[:2])
            ids = self.single_rows(tokenizer, model.config, [text]).ids
        else:
            ids = self.row(tokenizer, model.config, text)
        return Reading((ids,), [tokenizer.decode([token]) for token in ids[0]])

    def source_ids(self, tokenizer, text):
        """The ids of a text in which the names of special tokens mean the tokens."""
        return tokenizer.encode_with(special_names(tokenizer), text)

    def max_tokens(self, config):
        return row_length(config) - 2                                 # class token and separator

    def row(self, tokenizer, config, text):
        """The ids of one text as a row, (1, T)."""
        ids, most = self.source_ids(tokenizer, text), self.max_tokens(config)
        if len(ids) > most:
            raise ValueError(f"a text of {len(ids)} tokens is too long for this model, which reads "
                             f"{most}; shorten it.")
        return passage_rows([(ids,)], row_length(config), *self.layout(tokenizer)).ids


def row_length(config):
    """T of the longest row that a model reads."""
    return getattr(config, "max_length", None) or config.context_length


def special_names(tokenizer):
    """The names of the padding, class, separator and mask tokens; ValueError if one is missing."""
    for names in PUBLISHED:
        if set(names) <= set(tokenizer.special):
            return names
    raise ValueError(f"the tokenizer must have the special tokens {' '.join(PUBLISHED[0])} or "
                     f"{' '.join(PUBLISHED[1])}, but has {' '.join(tokenizer.special) or 'none'}.")


def special_ids(tokenizer):
    """The ids of `special_names`."""
    return tuple(map(tokenizer.special_id, special_names(tokenizer)))


def word_after(tokenizer, before, token):
    """The text that a token adds after another; some tokenizers put a space between them."""
    first, both = tokenizer.decode([before]), tokenizer.decode([before, token])
    return both[len(first):] if both.startswith(first) else tokenizer.decode([token])


def library_tokenizer():
    """Byte pairs, learned only from the training part."""
    return _tokenizer(N_MERGES)


@lru_cache(maxsize=4)
def _tokenizer(n_merges):
    return BytePairTokenizer.of(library_text(held_out=False).text, n_merges, special=SPECIAL)


def in_batches(function, arrays, size=VALIDATION_BATCH):
    """The results of a function of a few rows at a time, concatenated."""
    return np.concatenate([function(*(array[first : first + size] for array in arrays))
                           for first in range(0, len(arrays[0]), size)])
