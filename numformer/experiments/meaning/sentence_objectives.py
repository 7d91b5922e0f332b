"""Sentence-BERT's objectives side by side: what each makes of the same start and the same pairs."""

from functools import partial

import numpy as np

from numformer.data.world import CONTRADICTION, ENTAILMENT, NEUTRAL
from numformer.experiments.experiment import Experiment, Outcome
from numformer.experiments.meaning.sentence_training import (
    batch_of, cosines, mean_of_words, ranks, recall, sentence_bert, sentence_rows,
    sentence_vectors, tuned)
from numformer.experiments.meaning.world_bert import pretrained, tales_of
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


def measured(vectors_of, pairs):
    """(recall at 1, Spearman's correlation, cosines by class) of vectors on held-out pairs.

    A hypothesis that follows is to find its premise among those of all tales; and the cosine of
    pairs is compared with how related they are.
    """
    from scipy.stats import spearmanr

    all_cosines = cosines(vectors_of(pairs.hypotheses), vectors_of(pairs.premises))
    follows, n = pairs.of_label(ENTAILMENT), len(pairs.premises.ids)
    own = all_cosines[np.arange(len(pairs.tale)), pairs.tale]
    other = all_cosines[np.arange(len(pairs.tale)), (pairs.tale + 1) % n]
    by_class = [*(own[pairs.label == k] for k in range(len(RELATED))), other]
    related = np.concatenate([np.full(len(each), value) for each, value
                              in zip(by_class, (*RELATED.values(), 0.0))])
    return (recall(ranks(all_cosines[follows], pairs.tale[follows]), 1),
            float(spearmanr(np.concatenate(by_class), related).statistic), by_class)


def measure(seed, steps=None):
    """Tune with each objective, and compare with the start and with the mean of embeddings."""
    bert = pretrained(seed, steps)
    training = Pairs(bert, tales_of(TRAINING_TALES, held_out=False))
    held_out = Pairs(bert, tales_of(TALES))
    start = sentence_bert(bert, "triplet", seed)
    found = {"mean_of_words": measured(partial(mean_of_words, bert.model), held_out),
             "before": measured(partial(sentence_vectors, start), held_out)}
    for objective in OBJECTIVES:
        model = sentence_bert(bert, objective, seed, n_classes=len(CLASSES))
        model = tuned(model, batches(training, objective), seed, steps or STEPS)
        found[objective] = measured(partial(sentence_vectors, model), held_out)
    figures = {f"{name}_recall": result[0] for name, result in found.items()}
    figures |= {f"{name}_spearman": result[1] for name, result in found.items()}
    table = "\n".join(f"{name.replace('_', ' '):14}  recall at 1 {result[0]:.3f}  Spearman "
                      f"{result[1]:.3f}" for name, result in found.items())
    return Outcome(figures, partial(_drawn, found), table)


def _drawn(found):
    from numformer.plots.meaning import values_by_class

    return values_by_class({name.replace("_", " "): result[2] for name, result in found.items()},
                           [*RELATED, "another tale"], "cosine of premise and hypothesis",
                           "What each objective makes of the same pairs")


OBJECTIVES_EXPERIMENT = Experiment(
    "Which objective of Sentence-BERT gives the vectors that find and rate related sentences?",
    measure,
    (*(more(f"{name}_spearman", beats="before_spearman") for name in OBJECTIVES),
     more("regression_spearman", beats="mean_of_words_spearman"),
     more("in_batch_recall", beats="before_recall"),
     more("in_batch_recall", beats="mean_of_words_recall")))
