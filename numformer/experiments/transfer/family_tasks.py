"""The tasks of `three_families`: questions about tales, and their summaries; without a model."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from numformer.data import tales
from numformer.models import KneserNey
from numformer.recipes.world.answers import last_of_kind
from numformer.recipes.world.tags import entity_spans

TRAINING_TALES, HELD_OUT_TALES = 4000, 100
PADDING, BOS, EOS, SEPARATOR = range(4)                               # ids before those of words
N_GRAM = 5


class Example(NamedTuple):
    """Ids of a source and a target, and the target's tokens in the source: (first, past the last).

    A summary is not in its tale: it has no span.
    """

    source: list
    target: list
    span: tuple = ()


class Examples(NamedTuple):
    """A task: lists of `Example`, those held out, and figures of methods without a model."""

    training: list
    held_out: list
    baselines: dict


@lru_cache(maxsize=1)
def data():
    """(vocabulary size, {task: Examples})."""
    told, held_out = tales(TRAINING_TALES), tales(HELD_OUT_TALES, held_out=True)
    words = sorted({word for each in told for word in (
        *each.words, *each.summary, *(w for question in each.questions for w in question.words))})
    ids = {word: n for n, word in enumerate(words, SEPARATOR + 1)}

    def encoded(words):
        return [ids[word] for word in words]

    def answers(part):
        return [Example([*encoded(question.words), SEPARATOR, *encoded(each.words)],
                        encoded(question.answer),
                        tuple(end + len(question.words) + 1 for end in question.span))
                for each in part for question in each.questions]

    def summaries(part):
        return [Example(encoded(each.words), encoded(each.summary)) for each in part]

    summarized, size = (summaries(told), summaries(held_out)), SEPARATOR + 1 + len(ids)
    return size, {
        "answers": Examples(answers(told), answers(held_out), {
            "last_entity": exact(last_of_kind, held_out),
            "overlap": exact(most_similar, held_out)}),
        "summaries": Examples(*summarized, {"n_gram": by_n_gram(*summarized, size)})}


def exact(method, tales):
    """The fraction of questions that a method answers from (question, tale)."""
    return float(np.mean([tuple(method(question, each)) == tuple(question.answer)
                          for each in tales for question in each.questions]))


def most_similar(question, story):
    """The entity of the answer's kind whose sentence shares the most words with the question.

    Of several, the first. As in `last_of_kind`, the question does not name it.
    """
    asked, found = set(question.words), []
    for start, end, kind in sorted(span[1:] for span in entity_spans([story.entities])):
        if kind == question.kind:
            words = story.words[start:end]
            first, last = next(each for each in story.sentences if each[0] <= start < each[1])
            found.append((words[-1] not in asked, len(asked & set(story.words[first:last])), words))
    return max(found, key=lambda each: each[:2])[2]


def by_n_gram(training, held_out, vocab_size):
    """Accuracy on the tokens of targets of an n-gram of targets, given the tokens before."""
    n_gram = KneserNey.fit(np.concatenate([[BOS, *each.target] for each in training]), N_GRAM,
                           vocab_size)
    right = [n_gram.distribution([BOS, *target[:t]][1 - N_GRAM:]).argmax() == token
             for _, target, _ in held_out for t, token in enumerate(target)]
    return float(np.mean(right))
