"""The task of Sentence-BERT: passages on the same topic are to lie near each other."""

import numpy as np

from numformer.datasets import topic_passages, topic_triplets
from numformer.functional import cosine_similarity
from numformer.tasks.library import VALIDATION_BATCH, LibraryTask, in_batches
from numformer.training import PassageStream, Triplets, consecutive_passages, passage_rows

TOPICS = 16
ROUNDS = 8                                                            # triplets of each passage


class PassageTask(LibraryTask):
    """Train on triplets of passages from sixteen topics; the loss is the mean over held-out triplets.

    ``--from RUN`` begins with the trunk of a BERT.
    """

    name = "passages"
    kinds = ("SentenceBert",)
    unit = "a triplet"
    measured_before = True

    def examples(self, tokenizer, config, held_out):
        """The `Triplets` of one part of the library."""
        passages, _ = topic_passages(TOPICS, held_out=held_out)
        topics = dict(passages)
        triplets = [triplet for seed in range(1 if held_out else ROUNDS) for triplet in topic_triplets(passages, seed)]
        parts = [passage_rows([(ids,) for ids in self.encoded(tokenizer, texts)], config.context_length, *self.layout(tokenizer))
                 for texts in zip(*triplets)]
        return Triplets(*parts, [topics[anchor] for anchor, _, _ in triplets])

    def stream(self, material, tokenizer, config, training):
        return PassageStream(self.examples(tokenizer, config, held_out=False), training.batch_size * training.accumulation, training.seed)

    def validation(self, material, tokenizer, config, blocks=None):
        return consecutive_passages(self.examples(tokenizer, config, held_out=True), VALIDATION_BATCH, blocks)

    def held_out(self, model, tokenizer):
        """(texts, topics, vectors) of all held-out passages: the topics by their numbers, the vectors (N, C)."""
        texts, topics = zip(*topic_passages(TOPICS, held_out=True)[0])
        rows = passage_rows([(ids,) for ids in self.encoded(tokenizer, texts)], model.config.context_length, *self.layout(tokenizer))
        return texts, np.array(topics), in_batches(model, [rows.ids, rows.lengths])

    def measure(self, model, tokenizer, material):
        """How often the passage nearest to a held-out one, among all other held-out ones, is on its topic; guessing: one in sixteen."""
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
        return texts[int(cosine_similarity(vector, vectors)[0].argmax())], 0


def nearest_others(vectors):
    """Of each vector, (N, C), the number of the other one that is nearest by cosine, (N,).

    Examples
    --------
    >>> nearest_others(np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]))
    array([1, 0, 1])
    """
    cosines, _ = cosine_similarity(vectors, vectors)
    np.fill_diagonal(cosines, -np.inf)                                # nobody is his own neighbour
    return cosines.argmax(axis=1)
