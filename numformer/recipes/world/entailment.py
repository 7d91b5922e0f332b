"""Whether a sentence follows from others, contradicts them, or neither."""

import math
from collections import Counter

import numpy as np

from numformer.data.world import CONTRADICTION, ENTAILMENT, NEUTRAL
from numformer.finite import predicted_classes
from numformer.recipes.preset import Preset, more
from numformer.recipes.world.tags import FEW, MODEL, most
from numformer.recipes.world.world_bert import CONTENT
from numformer.recipes.world.world_task import LabelledTask, TargetRows, shown, words_of

LABELS = CONTRADICTION, ENTAILMENT, NEUTRAL


class EntailmentTask(LabelledTask):
    """Classify pairs of a hypothesis and a premise of two or three sentences of a tale."""

    name = "entailment"
    unit = "nats per pair"
    from_the_data = frozenset({"vocab_size", "n_classes"})
    n_tales = 600

    def options(self, tokenizer):
        return {**super().options(tokenizer), "n_classes": len(LABELS)}

    def pairs(self, held_out):
        """(hypothesis, premise, label) of one part, words and words and a number."""
        return [(claim.hypothesis, story.words[slice(*claim.premise)], LABELS.index(claim.label))
                for story in self.tales(held_out) for claim in story.claims]

    def examples(self, tokenizer, config, held_out):
        *passages, labels = zip(*self.pairs(held_out))
        return TargetRows(self.rows(tokenizer, config, list(zip(*passages))), np.array(labels))

    def sample(self, model, tokenizer, rng):
        """A held-out premise and hypothesis, the predicted label, and the label."""
        pairs = self.pairs(held_out=True)
        hypothesis, premise, label = pairs[int(rng.integers(len(pairs)))]
        rows = self.rows(tokenizer, model.config, [(hypothesis, premise)])
        found = LABELS[self.predicted(model, rows)[0]]
        return f"{shown(premise)} So: {shown(hypothesis)} -> {found} ({LABELS[label]})"

    def predicted(self, model, rows):
        """The numbers of the labels of rows, (N,)."""
        return predicted_classes(self.name, self.logits(model, rows), model)

    def answer(self, model, tokenizer, text):
        """The label of the last sentence, given those before it."""
        words = words_of(text)
        ends = [n for n, word in enumerate(words) if word == "." and n < len(words) - 1]
        if not ends:
            raise ValueError("give a premise and a hypothesis, each with a full stop, such as "
                             "'tom gave a ball to anna. anna has the ball now.'")
        premise, hypothesis = words[:ends[-1] + 1], words[ends[-1] + 1 :]
        rows = self.user_rows(model, tokenizer, hypothesis, premise)
        return LABELS[self.predicted(model, rows)[0]], 0

    def measure(self, model, tokenizer, dataset):
        """Accuracy on held-out pairs: the model's, and those of three simple rules.

        The majority class; naive Bayes on the words of the hypothesis alone; and the most frequent
        label for a number of hypothesis words that the premise does not have.
        """
        *passages, labels = zip(*self.pairs(held_out=True))
        rows, labels = self.rows(tokenizer, model.config, list(zip(*passages))), np.array(labels)
        training = self.pairs(held_out=False)
        frequent = most(Counter(label for *_, label in training))
        by_number = {}
        for hypothesis, premise, label in training:
            by_number.setdefault(missing(hypothesis, premise), Counter())[label] += 1
        by_overlap = [most(by_number.get(missing(*pair), {frequent: 1})) for pair in zip(*passages)]
        return {"accuracy": float((self.predicted(model, rows) == labels).mean()),
                "majority_accuracy": float((labels == frequent).mean()),
                "hypothesis_accuracy": float((naive_bayes(training, passages[0]) == labels).mean()),
                "overlap_accuracy": float((np.array(by_overlap) == labels).mean())}


def missing(hypothesis, premise):
    """How many words of a hypothesis its premise does not have."""
    return len(set(hypothesis) - set(premise))


def naive_bayes(training, hypotheses):
    """The most probable label of each hypothesis by its words alone: an array of int.

    Only words and labels of the training count.
    """
    counts, labels = [Counter() for _ in LABELS], Counter()
    for hypothesis, _, label in training:
        counts[label].update(hypothesis)
        labels[label] += 1
    words = set().union(*counts)
    totals = [sum(each.values()) + len(words) for each in counts]

    def score(label, hypothesis):
        return math.log(labels[label]) + sum(
            math.log((counts[label][word] + 1) / totals[label])
            for word in hypothesis if word in words)

    return np.array([max(sorted(labels), key=lambda label: score(label, each))
                     for each in hypotheses])


_BETTER = tuple(more("accuracy", beats=f"{name}_accuracy", ahead_of=("entailment",))
                for name in ("majority", "hypothesis", "overlap"))

PRESETS = {
    "entailment": Preset(
        dict(MODEL, dropout=0.0), dict(FEW, steps=500, batch_size=32, eval_every=250),
        EntailmentTask(), "BertClassifier", CONTENT,
        (more("accuracy", beats="majority_accuracy"),), {"world-bert": _BETTER}),
}
