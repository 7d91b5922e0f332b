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

    def measure(self, model, tokenizer, material):
        """How often the passage nearest to a held-out one, among all other held-out ones, is on its topic; guessing: one in sixteen."""
        passages, _ = topic_passages(TOPICS, held_out=True)
        texts, topics = zip(*passages)
        rows = passage_rows([(ids,) for ids in self.encoded(tokenizer, texts)], model.config.context_length, *self.layout(tokenizer))
        return {"recall_at_1": recall_at_1(in_batches(model, [rows.ids, rows.lengths]), np.array(topics))}


def recall_at_1(vectors, topics):
    """How many vectors have one of their own topic as the nearest other, by cosine.

    Examples
    --------
    >>> recall_at_1(np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]]), np.array([0, 0, 1]))
    0.6666666666666666
    """
    cosines, _ = cosine_similarity(vectors, vectors)
    np.fill_diagonal(cosines, -np.inf)                                # nobody is his own neighbour
    return float((topics[cosines.argmax(axis=1)] == topics).mean())
