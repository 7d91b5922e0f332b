"""Problems on how Sentence-BERT compares vectors."""

from numformer import functional as F
from numformer.teaching.problems.problem import FunctionProblem, sizes


def two_sets(rng):
    N, M, C = sizes(rng, 3)
    return {"a": rng.standard_normal((N, C)), "b": 2 * rng.standard_normal((M, C))}, {}


def triplets(**options):
    def make(rng):
        """Some triplets keep the margin, and some violate it."""
        B, C = sizes(rng, 2)
        a, p, n = rng.standard_normal((3, B + 4, C))
        p[0], n[0], n[1] = a[0] + 0.1, a[0] + 9, a[1] + 0.1
        return {"anchors": a, "positives": p, "negatives": n}, options
    return make


PROBLEMS = {
    "cosine_similarity": FunctionProblem(F.cosine_similarity, F.cosine_similarity_backward,
                                         ("a", "b"), {"plain": two_sets}),
    "triplet_loss": FunctionProblem(F.triplet_loss, F.triplet_loss_backward,
                                    ("anchors", "positives", "negatives"),
                             {"plain": triplets(), "margin=0.3": triplets(margin=0.3)}),
}
