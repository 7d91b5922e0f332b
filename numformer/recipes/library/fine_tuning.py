"""Fine-tuning of BERT: topic classifiers and Sentence-BERT, from scratch or from a BERT run."""

import numpy as np

from numformer.data import (
    LabelledRows, PassageStream, Triplets, consecutive_passages, topic_passages, topic_triplets)
from numformer.finite import predicted_classes
from numformer.functional import cosine_similarity
from numformer.recipes.library.bert import BERT, CONTENT, LIBRARY
from numformer.recipes.library.library_task import VALIDATION_BATCH, LibraryTask, in_batches
from numformer.recipes.preset import Preset, more

TOPICS = 8                                                            # of the classifiers
TRIPLET_TOPICS = 16
ROUNDS = 8                                                            # triplets of each passage


class ExamplesTask(LibraryTask):
    """A task on passages; a subclass has the `examples` of one part of the library."""

    def stream(self, dataset, tokenizer, config, training):
        return PassageStream(self.examples(tokenizer, config, held_out=False),
                             training.batch_size * training.accumulation, training.seed)

    def validation(self, dataset, tokenizer, config, blocks=None):
        examples = self.examples(tokenizer, config, held_out=True)
        return consecutive_passages(examples, VALIDATION_BATCH, blocks)


class TopicTask(ExamplesTask):
    """Classify passages by their topic, of eight with equally many passages each.

    There are a thousand passages. ``--from RUN`` begins with the backbone of a BERT.
    """

    name = "topics"
    each = None                                                       # passages a topic; None: all
    unit = "nats per passage"
    from_the_data = frozenset({"vocab_size", "n_classes"})

    def options(self, tokenizer):
        return {**super().options(tokenizer), "n_classes": TOPICS}

    def examples(self, tokenizer, config, held_out):
        """The `LabelledRows` of one part of the library."""
        each = None if held_out else self.each
        texts, labels = zip(*topic_passages(TOPICS, held_out=held_out, each=each)[0])
        return LabelledRows(self.single_rows(tokenizer, config, texts), labels)

    def sample(self, model, tokenizer, rng):
        """A held-out passage, the predicted topic, and its topic."""
        passages, names = topic_passages(TOPICS, held_out=True)
        text, label = passages[int(rng.integers(len(passages)))]
        ids = self.single_rows(tokenizer, model.config, [text]).ids
        found = int(predicted_classes(self.name, model(ids), model)[0])
        return f"{text} -> {names[found]} ({names[label]})"

    def answer(self, model, tokenizer, text):
        """The name of its topic."""
        _, names = topic_passages(TOPICS, held_out=True)
        logits = model(self.row(tokenizer, model.config, text))       # (1, classes)
        return names[int(predicted_classes(self.name, logits, model)[0])], 0

    def measure(self, model, tokenizer, dataset):
        """Accuracy on held-out passages; guessing finds one topic in eight."""
        examples = self.examples(tokenizer, model.config, held_out=True)
        logits = in_batches(model, [examples.rows.ids, examples.rows.lengths])
        found = predicted_classes(self.name, logits, model)
        return {"accuracy": float((found == examples.labels).mean())}


class FewTopicsTask(TopicTask):
    """The same with eight passages of each topic, so that pretraining matters."""

    name = "few-topics"
    each = 8


class PassageTask(ExamplesTask):
    """Embed passages so that those on the same topic are close: triplets from sixteen topics.

    The loss is the mean over held-out triplets. ``--from RUN`` begins with the backbone of a BERT.
    """

    name = "passages"
    unit = "per triplet"
    measured_before = True

    def examples(self, tokenizer, config, held_out):
        """The `Triplets` of one part of the library."""
        passages, _ = topic_passages(TRIPLET_TOPICS, held_out=held_out)
        topics, rounds = dict(passages), 1 if held_out else ROUNDS
        triplets = [triplet for seed in range(rounds) for triplet in topic_triplets(passages, seed)]
        parts = [self.single_rows(tokenizer, config, texts) for texts in zip(*triplets)]
        return Triplets(*parts, [topics[anchor] for anchor, _, _ in triplets])

    def held_out(self, model, tokenizer):
        """(texts, topics, embeddings) of all held-out passages; embeddings are (N, C)."""
        texts, topics = zip(*topic_passages(TRIPLET_TOPICS, held_out=True)[0])
        rows = self.single_rows(tokenizer, model.config, texts)
        return texts, np.array(topics), in_batches(model, [rows.ids, rows.lengths])

    def measure(self, model, tokenizer, dataset):
        """How often the nearest other passage is on the same topic; guessing: one in sixteen."""
        _, topics, vectors = self.held_out(model, tokenizer)
        return {"recall_at_1": float((topics[nearest_others(vectors)] == topics).mean())}

    def sample(self, model, tokenizer, rng):
        """A held-out passage, and the nearest other one."""
        texts, _, vectors = self.held_out(model, tokenizer)
        row = int(rng.integers(len(texts)))
        return f"{texts[row]} -> {texts[nearest_others(vectors)[row]]}"

    def answer(self, model, tokenizer, text):
        """The held-out passage that is nearest to the text."""
        vector = model(self.row(tokenizer, model.config, text))       # (1, C)
        texts, _, vectors = self.held_out(model, tokenizer)
        cosines, _ = cosine_similarity(vector, vectors)               # (1, N)
        return texts[int(predicted_classes(self.name, cosines, model)[0])], 0


def nearest_others(vectors):
    """For each vector of (N, C), the index of the nearest other one by cosine similarity: (N,).

    Examples
    --------
    >>> nearest_others(np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]))
    array([1, 0, 1])
    """
    cosines, _ = cosine_similarity(vectors, vectors)
    np.fill_diagonal(cosines, -np.inf)                                # not itself
    return predicted_classes("nearest", cosines)


_MODEL = dict(BERT, dropout=0.1)
_TRAINING = dict(LIBRARY, steps=200, learning_rate=0.003, warmup_steps=20, eval_every=50)
_BETTER = dict(beats="recall_at_1_before")

PRESETS = {
    "topics": Preset(
        _MODEL, _TRAINING, TopicTask(), "BertClassifier", CONTENT,
        (more("accuracy"),), {"bert": (more("accuracy"),)}),
    "few-topics": Preset(
        _MODEL, _TRAINING, FewTopicsTask(), "BertClassifier", CONTENT,
        (more("accuracy"),), {"bert": (more("accuracy", ahead_of=("few-topics",)),)}),
    "sbert": Preset(
        _MODEL, _TRAINING, PassageTask(), "SentenceBert", CONTENT,
        (more("recall_at_1", **_BETTER),),
        {"bert": (more("recall_at_1", **_BETTER, ahead_of=("sbert",)),)}),
}
