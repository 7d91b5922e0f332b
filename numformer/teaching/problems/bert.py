"""Problems on how Sentence-BERT compares vectors, and CLIP texts with images."""

from numformer import functional as F
from numformer.teaching.problems.problem import FunctionProblem, Level, sizes


def two_sets(rng):
    N, M, C = sizes(rng, 3)
    return {"a": rng.standard_normal((N, C)), "b": 2 * rng.standard_normal((M, C))}, {}


def with_zero_vector(rng):
    arguments, options = two_sets(rng)
    arguments["a"][-1] = 0
    return arguments, options


def with_equal_vectors(rng):
    arguments, options = triplets()(rng)
    arguments["positives"][-1] = arguments["anchors"][-1]
    return arguments, options


def two_texts(rng):
    B, C = sizes(rng, 2)
    return {"u": rng.standard_normal((B, C)), "v": 2 * rng.standard_normal((B, C))}, {}


def with_equal_coordinates(rng):
    arguments, options = two_texts(rng)
    arguments["v"][-1, 0] = arguments["u"][-1, 0]
    return arguments, options


def rated(rng):
    arguments, options = two_texts(rng)
    return {**arguments, "targets": rng.uniform(-1, 1, len(arguments["u"]))}, options


def rated_with_zero_vector(rng):
    arguments, options = rated(rng)
    arguments["u"][-1] = 0
    return arguments, options


def triplets(**options):
    def make(rng):
        """Some triplets keep the margin, and some violate it."""
        B, C = sizes(rng, 2)
        a, p, n = rng.standard_normal((3, B + 4, C))
        p[0], n[0], n[1] = a[0] + 0.1, a[0] + 9, a[1] + 0.1
        return {"anchors": a, "positives": p, "negatives": n}, options
    return make


def of_pairs(rng):
    N, = sizes(rng, 1)
    return {"logits": 2 * rng.standard_normal((N + 1, N + 1))}, {}


ZERO = "The cosines of a zero vector, and its gradient, are 0, not NaN."
EQUAL = "The gradient of the distance of two equal vectors is taken as 0, not NaN."
KINK = "The gradient of the absolute value is taken as 0 where u and v are equal."
PROBLEMS = {
    "cosine_similarity": FunctionProblem(
        F.cosine_similarity, F.cosine_similarity_backward, ("a", "b"), {
            "plain": two_sets, "a zero vector": Level(with_zero_vector, ZERO, required=False)},
        smallest=1e-6),                              # a norm may have a lower bound, such as 1e-8
    "triplet_loss": FunctionProblem(
        F.triplet_loss, F.triplet_loss_backward, ("anchors", "positives", "negatives"), {
            "plain": triplets(), "margin=0.3": triplets(margin=0.3),
            "equal vectors": Level(with_equal_vectors, EQUAL, required=False)}, smallest=1e-6),
    "pair_features": FunctionProblem(
        F.pair_features, F.pair_features_backward, ("u", "v"), {
            "plain": two_texts,
            "equal coordinates": Level(with_equal_coordinates, KINK, required=False)}),
    "cosine_regression_loss": FunctionProblem(
        F.cosine_regression_loss, F.cosine_regression_loss_backward, ("u", "v"), {
            "plain": rated,
            "a zero vector": Level(rated_with_zero_vector, ZERO, required=False)}, smallest=1e-6),
    "contrastive_loss": FunctionProblem(
        F.contrastive_loss, F.contrastive_loss_backward, ("logits",), {"plain": of_pairs}),
}
