"""Exercises on what Sentence-BERT compares vectors by."""

from numformer import functional as F
from numformer.verify.exercises.exercise import Exercise, sizes


def two_sets(rng):
    N, M, C = sizes(rng, 3)
    return {"a": rng.standard_normal((N, C)), "b": 2 * rng.standard_normal((M, C))}, {}


def threes(**options):
    def make(rng):
        """Some keep the margin, and some do not."""
        B, C = sizes(rng, 2)
        a, p, n = rng.standard_normal((3, B + 4, C))
        p[0], n[0], n[1] = a[0] + 0.1, a[0] + 9, a[1] + 0.1
        return {"anchors": a, "positives": p, "negatives": n}, options
    return make


EXERCISES = {
    "cosine_similarity": Exercise(F.cosine_similarity, F.cosine_similarity_backward, ("a", "b"), {"plain": two_sets}),
    "triplet_loss": Exercise(F.triplet_loss, F.triplet_loss_backward, ("anchors", "positives", "negatives"),
                             {"plain": threes(), "margin=0.3": threes(margin=0.3)}),
}
