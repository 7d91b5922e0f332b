"""Problems on BatchNorm, patches and pooling."""

from numformer import functional as F
from numformer.teaching.problems.problem import FunctionProblem, sizes


def normed(rng):
    B, T, C = sizes(rng, 3)
    return {"x": 2 * rng.standard_normal((B, T, C)) + 0.7,
            "weight": rng.standard_normal(C), "bias": rng.standard_normal(C)}, {}


def normed_with_statistics(rng):
    arguments, _ = normed(rng)
    C = len(arguments["weight"])
    return {**arguments, "statistics": (rng.standard_normal(C), 0.5 + rng.random(C))}, {}


def normed_with_padding(rng):
    arguments, _ = normed(rng)
    B, T, _ = arguments["x"].shape
    return {**arguments, "mask": real(rng, B, T)}, {}


def real(rng, B, T):
    """A mask of real positions, at least one in each row; some row has padding."""
    mask = rng.random((B, T)) < 0.6
    mask[:, 0], mask[0, 1] = True, False
    return mask


def images(rng):
    """A patch size, the number of channels, and images of several patches."""
    B, rows, columns, channels = sizes(rng, 4)
    P = int(rng.integers(2, 4))
    return P, channels, rng.standard_normal((B, P * rows, P * columns, channels))


def cut(rng):
    P, _, x = images(rng)
    return {"images": x, "patch_size": P}, {}


def convolved(rng):
    P, channels, x = images(rng)
    C = channels + 1
    return {"images": x, "weight": rng.standard_normal((P, P, channels, C)),
            "bias": rng.standard_normal(C)}, {}


def pooled(masked):
    def make(rng):
        B, T, C = sizes(rng, 3)
        return {"x": rng.standard_normal((B, T, C))}, {"mask": real(rng, B, T)} if masked else {}
    return make


PROBLEMS = {
    "batch_norm": FunctionProblem(
        F.batch_norm, F.batch_norm_backward, ("x", "weight", "bias"), {"plain": normed}),
    "batch_norm_inference": FunctionProblem(
        F.batch_norm_inference, F.batch_norm_inference_backward, ("x", "weight", "bias"), {
            "plain": normed_with_statistics}),
    "masked_batch_norm": FunctionProblem(
        F.masked_batch_norm, F.masked_batch_norm_backward, ("x", "weight", "bias"), {
            "plain": normed_with_padding}),
    "patches": FunctionProblem(F.patches, F.patches_backward, ("images",), {"plain": cut}),
    "patch_convolution": FunctionProblem(F.patch_convolution, F.patch_convolution_backward,
                                         ("images", "weight", "bias"), {"plain": convolved}),
    "mean_pooling": FunctionProblem(F.mean_pooling, F.mean_pooling_backward, ("x",),
                                    {"plain": pooled(False), "a mask": pooled(True)}),
    "max_pooling": FunctionProblem(F.max_pooling, F.max_pooling_backward, ("x",),
                                   {"plain": pooled(False), "a mask": pooled(True)}),
}
