"""Questions find the sentence that answers them, among the sentences of several tales."""

from collections import Counter
from functools import partial

import numpy as np

from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.meaning.sentence_training import (
    batch_of, cosines, ranks, recall, sentence_bert, sentence_rows, sentence_vectors, tuned)
from numformer.experiments.meaning.world_bert import pretrained, tales_of
from numformer.plots.axes import new_axes, styled, styles
from numformer.recipes.preset import more

STEPS, TALES_OF_A_BATCH, QUESTIONS = 200, 8, 4
TRAINING_TALES, TALES, GROUP = 800, 100, 10           # tales whose sentences are searched together


class Questions:
    """Questions of tales, with the sentence of each answer.

    Parameters
    ----------
    tales : sequence of Tale
    """

    def __init__(self, tales):
        self.sentences = [tale.words[slice(*span)] for tale in tales for span in tale.sentences]
        self.tale_of_sentence = np.array([n for n, tale in enumerate(tales)
                                          for _ in tale.sentences])
        first = np.cumsum([0, *(len(tale.sentences) for tale in tales)])
        found = [(question.words, first[n] + _sentence(tale, question.span[0]), n)
                 for n, tale in enumerate(tales) for question in tale.questions]
        self.questions = [words for words, _, _ in found]
        self.answer = np.array([sentence for _, sentence, _ in found])
        self.tale = np.array([n for _, _, n in found])


def _sentence(tale, token):
    return next(k for k, (start, end) in enumerate(tale.sentences) if start <= token < end)


def tf_idf(texts, inverse):
    """Vectors of word counts times inverse document frequencies, (N, words)."""
    words = {word: n for n, word in enumerate(inverse)}
    vectors = np.zeros((len(texts), len(words) + 1))
    vectors[:, -1] = 1e-9                                             # no vector is zero
    for row, text in zip(vectors, texts):
        for word, count in Counter(text).items():
            if word in words:
                row[words[word]] = count * inverse[word]
    return vectors


def inverse_frequencies(texts):
    """log(N / n) of the words in N texts, of which n have the word."""
    counts = Counter(word for text in texts for word in set(text))
    return {word: float(np.log(len(texts) / n)) for word, n in sorted(counts.items())}


def ranks_in_groups(question_vectors, sentence_vectors, data):
    """The rank of each question's sentence among the sentences of its group of tales."""
    found = np.zeros(len(data.answer))
    all_cosines = cosines(question_vectors, sentence_vectors)
    for group in range(-(-(data.tale.max() + 1) // GROUP)):
        queries = np.flatnonzero(data.tale // GROUP == group)
        pool = np.flatnonzero(data.tale_of_sentence // GROUP == group)
        right = np.searchsorted(pool, data.answer[queries])
        found[queries] = ranks(all_cosines[np.ix_(queries, pool)], right)
    return found


def measure(seed, steps=None):
    """Recall of word overlap, of the model before tuning, and after it."""
    bert = pretrained(seed, steps)
    training, held_out = (Questions(tales_of(count, held_out=is_held_out)) for count, is_held_out
                          in ((TRAINING_TALES, False), (TALES, True)))
    rows, sentence_of = (sentence_rows(bert, training.questions),
                         sentence_rows(bert, training.sentences))
    by_tale = [np.flatnonzero(training.tale == n) for n in range(TRAINING_TALES)]

    def make(rng):
        """Questions of several tales, so that the other sentences of a tale are negatives."""
        tales = rng.choice(TRAINING_TALES, TALES_OF_A_BATCH, replace=False)
        chosen = np.concatenate([rng.choice(by_tale[n], QUESTIONS, replace=False) for n in tales])
        answers = sentence_of.take(training.answer[chosen])
        return batch_of(rows.take(chosen), answers, answers, last=training.answer[chosen])

    inverse = inverse_frequencies(training.sentences)
    found = {"word_overlap": ranks_in_groups(tf_idf(held_out.questions, inverse),
                                             tf_idf(held_out.sentences, inverse), held_out)}
    model = sentence_bert(bert, "in_batch", seed)
    queries, pool = (sentence_rows(bert, texts) for texts in (held_out.questions,
                                                              held_out.sentences))
    for name in ("before", "tuned"):
        if name == "tuned":
            model = tuned(model, make, seed, steps or STEPS)
        found[name] = ranks_in_groups(sentence_vectors(model, queries),
                                      sentence_vectors(model, pool), held_out)
    figures = {f"{name}_recall_at_{k}": recall(rank, k) for name, rank in found.items()
               for k in (1, 5)}
    by_question = {}
    for k, words in enumerate(held_out.questions):
        by_question.setdefault(" ".join(words[:2]), []).append(k)
    table = "\n".join(
        f"{kind} ... ?  {len(own)} questions, recall at 1: word overlap "
        f"{recall(found['word_overlap'][own], 1):.2f}, tuned {recall(found['tuned'][own], 1):.2f}"
        for kind, own in sorted(by_question.items(), key=lambda item: -len(item[1]))[:8])
    return Outcome(figures, partial(_drawn, found), table)


@styled
def _drawn(found):
    ax, most = new_axes((8, 5)), 20
    for (name, rank), style in zip(found.items(), styles(ax, len(found))):
        ax.plot(range(1, most + 1), [recall(rank, k) for k in range(1, most + 1)],
                label=name.replace("_", " "), **style)
    ax.set_xticks([1, *range(5, most + 1, 5)])
    ax.set(xlabel="sentences looked at (k)", ylabel="questions answered among them (recall at k)",
           ylim=(0, 1.03), title=f"Questions find their sentence among those of {GROUP} tales")
    ax.legend()
    return ax


RETRIEVAL_EXPERIMENT = Experiment(
    "Do the vectors of questions find the sentences that answer them?", measure,
    tuple(more(f"tuned_recall_at_{k}", beats=f"{name}_recall_at_{k}")
          for k in (1, 5) for name in ("word_overlap", "before")))
