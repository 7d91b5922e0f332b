"""Sentence-BERT's objectives side by side: what each makes of the same start and the same pairs."""

from functools import partial
from typing import NamedTuple

import numpy as np

from numformer.data.world import CONTRADICTION, ENTAILMENT, NEUTRAL
from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.meaning.answer_retrieval import inverse_frequencies, tf_idf
from numformer.experiments.meaning.clusters import mean_purity
from numformer.experiments.meaning.sentence_training import (
    batch_of, cosines, mean_of_words, ranks, recall, sentence_bert, sentence_rows,
    sentence_vectors, tuned)
from numformer.experiments.meaning.world_bert import pretrained, tales_of
from numformer.plots.axes import colours, panels, styled
from numformer.recipes.preset import more

STEPS, BATCH, TRAINING_TALES, TALES = 120, 32, 500, 100
RELATED = {ENTAILMENT: 1.0, CONTRADICTION: 2 / 3, NEUTRAL: 1 / 3}     # another tale's: 0
CLASSES = (*RELATED, "another tale")
OBJECTIVES = "classification", "regression", "triplet", "in_batch"


class Pairs:
    """Premises and hypotheses of tales: a premise a tale, and all hypotheses about it.

    Parameters
    ----------
    bert : WorldBert
    tales : sequence of Tale
    """

    def __init__(self, bert, tales):
        claims = [(n, claim) for n, tale in enumerate(tales) for claim in tale.claims]
        ends = [max((claim.premise for claim in tale.claims), key=lambda span: span[1] - span[0])
                for tale in tales]
        self.premises = sentence_rows(bert, [tale.words[slice(*end)]
                                             for tale, end in zip(tales, ends)])
        self.hypotheses = sentence_rows(bert, [claim.hypothesis for _, claim in claims])
        self.tale = np.array([n for n, _ in claims])
        self.label = np.array([CLASSES.index(claim.label) for _, claim in claims])
        self.plot = np.unique([tale.plot for tale in tales], return_inverse=True)[1]

    def of_label(self, label):
        """Indices of hypotheses."""
        return np.flatnonzero(self.label == CLASSES.index(label))

    def pairs(self, rng, numbers):
        """A batch of pairs; `numbers` has the label of each class. A quarter mixes two tales."""
        chosen = rng.choice(len(self.tale), BATCH, replace=False)
        tale, label = self.tale[chosen].copy(), self.label[chosen].copy()
        mixed = np.arange(BATCH) < BATCH // 4
        tale[mixed] = (tale[mixed] + rng.integers(1, len(self.premises.ids), mixed.sum())
                       ) % len(self.premises.ids)
        label[mixed] = CLASSES.index("another tale")
        return batch_of(self.premises.take(tale), self.hypotheses.take(chosen),
                        last=np.asarray(numbers)[label])

    def triplets(self, rng):
        """A batch of premises, hypotheses that follow, and ones that do not; half of these are
        about the same tale."""
        chosen = rng.choice(self.of_label(ENTAILMENT), BATCH, replace=False)
        wrong = self.of_label(NEUTRAL)
        of_tale = {n: wrong[self.tale[wrong] == n] for n in set(self.tale[chosen])}
        same = [int(rng.choice(of_tale[n])) for n in self.tale[chosen]]
        other = np.roll(chosen, 1)
        negative = np.where(np.arange(BATCH) % 2 == 0, same, other)
        tale = self.tale[chosen]
        return batch_of(self.premises.take(tale), self.hypotheses.take(chosen),
                        self.hypotheses.take(negative), last=tale)


def batches(pairs, objective):
    """The function that makes the batches of an objective."""
    if objective == "classification":
        return partial(pairs.pairs, numbers=np.arange(len(CLASSES)))
    if objective == "regression":
        return partial(pairs.pairs, numbers=np.array([*RELATED.values(), 0.0], np.float32))
    return pairs.triplets


class Measured(NamedTuple):
    """What the vectors of held-out pairs are good for.

    Parameters
    ----------
    recall : float
        At 1: a hypothesis that follows finds its premise among those of all tales.
    spearman : float
        Correlation of the cosine of pairs with how related they are.
    purity, plot_purity : float
        Of clusters of all premises and the hypotheses that follow: by tale, and by its plot.
    cosines : list of ndarray
        Of the pairs of each class.
    """

    recall: float
    spearman: float
    purity: float
    plot_purity: float
    cosines: list


def measured(vectors_of, pairs):
    """The `Measured` of vectors, where `vectors_of` has those of `PassageRows`."""
    from scipy.stats import spearmanr

    premises, hypotheses = vectors_of(pairs.premises), vectors_of(pairs.hypotheses)
    all_cosines = cosines(hypotheses, premises)
    follows, n = pairs.of_label(ENTAILMENT), len(pairs.premises.ids)
    own = all_cosines[np.arange(len(pairs.tale)), pairs.tale]
    other = all_cosines[np.arange(len(pairs.tale)), (pairs.tale + 1) % n]
    by_class = [*(own[pairs.label == k] for k in range(len(RELATED))), other]
    related = np.concatenate([np.full(len(each), value) for each, value
                              in zip(by_class, (*RELATED.values(), 0.0))])
    sentences = np.concatenate([premises, hypotheses[follows]])
    tale = np.concatenate([np.arange(n), pairs.tale[follows]])
    return Measured(recall(ranks(all_cosines[follows], pairs.tale[follows]), 1),
                    float(spearmanr(np.concatenate(by_class), related).statistic),
                    mean_purity(sentences, tale), mean_purity(sentences, pairs.plot[tale]),
                    by_class)


def words_of(rows):
    """The ids of the words of each row, without special tokens."""
    return [ids[1 : length - 1].tolist() for ids, length in zip(rows.ids, rows.lengths)]


def measure(seed, steps=None):
    """Tune with each objective, and compare with the start, mean embeddings and word counts."""
    bert = pretrained(seed, steps)
    training = Pairs(bert, tales_of(TRAINING_TALES, held_out=False))
    held_out = Pairs(bert, tales_of(TALES))
    start = sentence_bert(bert, "triplet", seed)
    inverse = inverse_frequencies(words_of(training.premises) + words_of(training.hypotheses))
    found = {"word_counts": measured(lambda rows: tf_idf(words_of(rows), inverse), held_out),
             "mean_of_words": measured(partial(mean_of_words, bert.model), held_out),
             "before": measured(partial(sentence_vectors, start), held_out)}
    for objective in OBJECTIVES:
        model = sentence_bert(bert, objective, seed, n_classes=len(CLASSES))
        model = tuned(model, batches(training, objective), seed, steps or STEPS)
        found[objective] = measured(partial(sentence_vectors, model), held_out)
    figures = {f"{name}_{figure}": getattr(result, figure) for name, result in found.items()
               for figure in ("recall", "spearman", "purity", "plot_purity")}
    table = "\n".join(f"{name.replace('_', ' '):14}  recall at 1 {each.recall:.3f}  Spearman "
                      f"{each.spearman:.3f}  purity by tale {each.purity:.3f}, by plot "
                      f"{each.plot_purity:.3f}" for name, each in found.items())
    return Outcome(figures, partial(_drawn, found), table)


@styled
def _drawn(found):
    from numformer.plots.meaning import values_by_class

    found = {name.replace("_", " "): each for name, each in found.items()}
    top, bottom = panels(None, 2, 1, (10, 8))[:, 0]
    values_by_class({name: each.cosines for name, each in found.items()},
                    [*RELATED, "another tale"], "cosine of premise and hypothesis",
                    "What each objective makes of the same pairs", top)
    x = np.arange(len(found))
    bottom.bar(x - 0.2, [each.purity for each in found.values()], 0.36, color=colours(bottom)[0],
               label="by tale")
    bottom.bar(x + 0.2, [each.plot_purity for each in found.values()], 0.36,
               color=colours(bottom)[1], hatch="//", label="by plot")
    bottom.set_xticks(x, found)
    bottom.set(ylim=(0, 1), ylabel="purity", title="Clusters of premises and what follows")
    bottom.legend()
    return top.figure


OBJECTIVES_EXPERIMENT = Experiment(
    "Which objective of Sentence-BERT gives vectors that find, rate and group related sentences?",
    measure,
    (*(more(f"{name}_spearman", beats="before_spearman") for name in OBJECTIVES),
     more("regression_spearman", beats="mean_of_words_spearman"),
     *(more("in_batch_recall", beats=f"{baseline}_recall")
       for baseline in ("before", "mean_of_words", "word_counts")),
     *(more(f"{name}_purity", beats=f"{baseline}_purity") for name in OBJECTIVES
       for baseline in ("before", "word_counts"))))
