"""Parts of speech and entities: a label for every word of a tale, from few labelled tales."""

from collections import Counter

import numpy as np

from numformer.data.world import ENTITIES, TAGS
from numformer.finite import predicted_classes
from numformer.functional import IGNORE_INDEX
from numformer.recipes.preset import Preset, more
from numformer.recipes.world.world_bert import BACKBONE, CONTENT, WORLD
from numformer.recipes.world.world_task import LabelledTask, TargetRows, shown, words_of


class TagTask(LabelledTask):
    """Label every word; a subclass names its labels and where a tale has them."""

    unit = "nats per word"
    from_the_data = frozenset({"vocab_size", "n_classes"})
    n_tales = 16
    labels, column = (), ""

    def options(self, tokenizer):
        return {**super().options(tokenizer), "n_classes": len(self.labels)}

    def examples(self, tokenizer, config, held_out):
        story = self.tales(held_out)
        rows = self.rows(tokenizer, config, [(each.words,) for each in story])
        targets = np.full(rows.ids.shape, IGNORE_INDEX)
        for target, each in zip(targets, story):
            ids = [self.labels.index(label) for label in getattr(each, self.column)]
            ids = ids[:rows.ids.shape[1] - 2]
            target[1 : len(ids) + 1] = ids                            # after the class token
        return TargetRows(rows, targets, by_token=True)

    def predicted(self, model, rows):
        """The labels of each row's words: a list of lists of str."""
        best = [predicted_classes(self.name, self.logits(model, rows.take([n])), model)[0]
                for n in range(len(rows.ids))]
        return [[self.labels[k] for k in row[1 : length - 1]]
                for row, length in zip(best, rows.lengths)]

    def by_frequency(self, tales):
        """The baseline: the most frequent label of each word in the labelled tales."""
        counts, whole = {}, Counter()
        for story in self.tales(held_out=False):
            for word, label in zip(story.words, getattr(story, self.column)):
                counts.setdefault(word, Counter())[label] += 1
                whole[label] += 1
        return [[most(counts.get(word, whole)) for word in story.words] for story in tales]

    def marked(self, words, labels):
        """The words with their labels, as text."""
        return " ".join(f"{word}/{label}" for word, label in zip(words, labels))

    def sample(self, model, tokenizer, rng):
        """The first sentences of a held-out tale with their predicted labels."""
        tales = self.tales(held_out=True)
        story = tales[int(rng.integers(len(tales)))]
        words = story.words[:story.sentences[2][1]]
        return self.marked(words, self.predicted(
            model, self.rows(tokenizer, model.config, [(words,)]))[0])

    def answer(self, model, tokenizer, text):
        """The text with a label after each word."""
        words = words_of(text)
        rows = self.user_rows(model, tokenizer, words)
        return self.marked(words, self.predicted(model, rows)[0]), 0

    def measure(self, model, tokenizer, dataset):
        """The model's figures on held-out tales, and those of the most frequent label of a word."""
        story = self.tales(held_out=True)
        rows = self.rows(tokenizer, model.config, [(each.words,) for each in story])
        found, others = self.predicted(model, rows), self.by_frequency(story)
        sizes = list(map(len, found))                                 # a long tale is cut
        expected = [list(getattr(each, self.column)[:size]) for each, size in zip(story, sizes)]
        own = self.figures(found, expected)
        other = self.figures([each[:size] for each, size in zip(others, sizes)], expected)
        return own | {f"{name}_of_the_baseline": value for name, value in other.items()}


class PartOfSpeechTask(TagTask):
    """The part of speech of every word, from sixteen labelled tales."""

    name, labels, column = "pos-tags", TAGS, "tags"

    def figures(self, found, expected):
        """Accuracy, and the mean F1 of all tags that are found or expected."""
        found, expected = (sum(each, []) for each in (found, expected))
        if not expected:
            raise ValueError("pos-tags: there are no words to measure; give at least one.")
        right = Counter(one for one, other in zip(found, expected) if one == other)
        f1 = [2 * right[tag] / (found.count(tag) + expected.count(tag)) for tag in TAGS
              if tag in found or tag in expected]
        return {"accuracy": sum(right.values()) / len(expected), "macro_f1": float(np.mean(f1))}


class EntityTask(TagTask):
    """People, places, things and numbers of a tale, from sixteen labelled tales."""

    name, labels, column = "entities", ENTITIES, "entities"

    def figures(self, found, expected):
        """Micro F1 of entities: one is found if its label, first and last word are right."""
        found, expected = map(entity_spans, (found, expected))
        right = len(found & expected)
        return {"entity_f1": 2 * right / max(1, len(found) + len(expected))}

    def marked(self, words, labels):
        """Entities in brackets, as text."""
        parts, spans = list(words), [each[1:] for each in entity_spans([labels])]
        for start, end, label in spans:
            parts[start] = f"[{parts[start]}"
            parts[end - 1] = f"{parts[end - 1]}]{label.lower()}"
        return shown(parts)


def entity_spans(rows):
    """The entities of rows of BIO labels: a set of (row, start, end, label).

    An I- label without the same entity before it begins a new one.

    Examples
    --------
    >>> sorted(entity_spans([["B-PERSON", "I-PERSON", "O", "B-THING"]]))
    [(0, 0, 2, 'PERSON'), (0, 3, 4, 'THING')]
    """
    spans = set()
    for row, labels in enumerate(rows):
        start = None
        for t, label in enumerate([*labels, "O"]):
            continues = start is not None and label == f"I-{labels[start][2:]}"
            if start is not None and not continues:
                spans.add((row, start, t, labels[start][2:]))
                start = None
            if start is None and label != "O":
                start = t
    return spans


def most(counts):
    """The most frequent label; of equally frequent ones, the first in the alphabet."""
    return min(counts, key=lambda label: (-counts[label], label))


MODEL = dict(BACKBONE, dropout=0.1)
FEW = dict(WORLD, steps=120, batch_size=16, learning_rate=0.003, warmup_steps=20, eval_every=60)


def _claims(name, more_of=(), **options):
    return tuple(more(figure, beats=f"{figure}_of_the_baseline", **options)
                 for figure in (name, *more_of))


PRESETS = {
    "pos-tags": Preset(
        MODEL, FEW, PartOfSpeechTask(), "BertTokenClassifier", CONTENT,
        (more("accuracy"),),
        {"world-bert": _claims("accuracy", ("macro_f1",), ahead_of=("pos-tags",))}),
    "entities": Preset(
        MODEL, FEW, EntityTask(), "BertTokenClassifier", CONTENT,
        (more("entity_f1"),),
        {"world-bert": _claims("entity_f1", ahead_of=("entities",))}),
}
