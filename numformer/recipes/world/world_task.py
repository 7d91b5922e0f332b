"""What tasks on the small world share: its words as tokens, rows with targets, measures."""

from abc import abstractmethod
from functools import lru_cache

import numpy as np

from numformer.data import Batch, Corpus, WordTokenizer, passage_rows, tales, world_text
from numformer.data.batches.passages import PassageStream, consecutive_passages
from numformer.data.tokenizers.words import split_words
from numformer.data.world import joined
from numformer.recipes.library.library_task import SPECIAL, VALIDATION_BATCH, in_batches
from numformer.recipes.task import Task

UNKNOWN = "[UNK]"
VOCABULARY_TALES = 3000                                               # where words are collected
SHOWN_TALES = 100                                                     # of the named dataset
HELD_OUT_TALES = 100


class TargetRows:
    """Rows with targets: one for each row (N,), two (N, 2), or one for each token (N, T).

    Parameters
    ----------
    rows : PassageRows
    targets : ndarray of int
    by_token : bool
        Whether there is a target for each token.
    """

    def __init__(self, rows, targets, by_token=False):
        self.rows, self.targets, self.by_token = rows, targets, by_token

    def __len__(self):
        return len(self.targets)

    @property
    def lengths(self):
        """Tokens of each row."""
        return self.rows.lengths

    def take(self, chosen):
        """The batch of some rows."""
        rows, targets = self.rows.take(chosen), self.targets[chosen]
        if self.by_token:
            targets = targets[:, :rows.ids.shape[1]]
        return Batch(ids=rows.ids, lengths=rows.lengths, segments=rows.segments, targets=targets)


class WorldTask(Task):
    """A task on tales, whose words are the tokens."""

    from_the_data = frozenset({"vocab_size"})
    n_tales = 0                                                       # to train on

    def load(self, data):
        return super().load(data) if data is not None else _corpus()

    def tokenizer(self, dataset):
        return _tokenizer()

    def tales(self, held_out):
        """The tales of one part."""
        return _tales(HELD_OUT_TALES if held_out else self.n_tales, held_out)

    def layout(self, tokenizer):
        """The ids of the padding, class and separator tokens."""
        return tuple(tokenizer.special_id(name) for name in SPECIAL[:3])

    def separator(self, tokenizer):
        return self.layout(tokenizer)[2]

    def rows(self, tokenizer, config, passages):
        """The `PassageRows` of tuples of one or two lists of words."""
        passages = [tuple(word_ids(tokenizer, words) for words in each) for each in passages]
        return passage_rows(passages, config.context_length, *self.layout(tokenizer))

    def source_ids(self, tokenizer, text):
        return word_ids(tokenizer, words_of(text))

    def max_tokens(self, config):
        return config.context_length - 3                              # [CLS], [SEP], [SEP]

    def user_rows(self, model, tokenizer, *passages):
        """The row of a user's words; ValueError if they are too many, or none."""
        size, most = sum(map(len, passages)), self.max_tokens(model.config)
        if size > most or not all(passages):
            raise ValueError(f"a text of {size} words does not fit: this model reads 1 to {most}; "
                             "choose another.")
        return self.rows(tokenizer, model.config, [passages])


class LabelledTask(WorldTask):
    """A task on labelled tales; a subclass has the `examples` of one part of the world.

    Training has few examples, always the same; a run's seed shuffles them. ``--from RUN`` begins
    with the backbone of a run of `world-bert`.
    """

    @abstractmethod
    def examples(self, tokenizer, config, held_out):
        """The `TargetRows` of one part."""

    def stream(self, dataset, tokenizer, config, training):
        return PassageStream(self.examples(tokenizer, config, held_out=False),
                             training.batch_size * training.accumulation, training.seed)

    def validation(self, dataset, tokenizer, config, blocks=None):
        examples = self.examples(tokenizer, config, held_out=True)
        return consecutive_passages(examples, VALIDATION_BATCH, blocks)

    def logits(self, model, rows):
        """The results of a model for all rows, in batches."""
        return in_batches(model, [rows.ids, rows.lengths, rows.segments])


def words_of(text):
    """The words and marks of a text, without white space."""
    return [word for word in split_words(text) if not word.isspace()]


def word_ids(tokenizer, words):
    """The ids of words and marks."""
    known = _ids(tuple(tokenizer.words), tuple(tokenizer.special))
    unknown = tokenizer.special_id(UNKNOWN)
    return np.array([known.get(word, unknown) for word in words], np.int64)


def shown(words):
    """Words as text."""
    return joined(list(words))


@lru_cache(maxsize=4)
def _ids(words, special):
    return {word: n for n, word in enumerate(special + words)}


@lru_cache(maxsize=8)
def _tales(count, held_out):
    return tuple(tales(count, held_out=held_out))


@lru_cache(maxsize=1)
def _corpus():
    return Corpus("world", world_text(SHOWN_TALES))


@lru_cache(maxsize=1)
def _tokenizer():
    """All words of training tales, questions, hypotheses and summaries."""
    words = set()
    for story in _tales(VOCABULARY_TALES, False):
        words.update(story.words, story.summary, *(each.words for each in story.questions),
                     *(each.hypothesis for each in story.claims))
    return WordTokenizer(sorted(words), (*SPECIAL, UNKNOWN))
