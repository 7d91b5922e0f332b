"""Problems on BatchNorm, patches and pooling."""

import numpy as np

from numformer import functional as F
from numformer.teaching.problems.edges import left_out
from numformer.teaching.problems.problem import FunctionProblem, Level, sizes
from numformer.teaching.problems.transformer import OFFSET


def normed(rng):
    B, T, C = sizes(rng, 3)
    T = max(T, 2)                                    # the statistics need two vectors
    return {"x": 2 * rng.standard_normal((B, T, C)) + 0.7,
            "weight": rng.standard_normal(C), "bias": rng.standard_normal(C)}, {}


def offset(rng):
    arguments, options = normed(rng)
    return {**arguments, "x": arguments["x"] + 1e7}, options


def normed_with_statistics(rng):
    arguments, _ = normed(rng)
    C = len(arguments["weight"])
    return {**arguments, "statistics": (rng.standard_normal(C), 0.5 + rng.random(C))}, {}


def normed_with_padding(rng):
    arguments, _ = normed(rng)
    B, T, _ = arguments["x"].shape
    mask = real(rng, B, T)
    mask[-1] = True                                  # the statistics need two vectors
    return {**arguments, "mask": mask}, {}


def real(rng, B, T):
    """A mask of real positions, at least one in each row; some row has padding."""
    mask = rng.random((B, T)) < 0.6
    mask[:, 0], mask[0, 1:2] = True, False
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


def pooled_with_nan(rng):
    arguments, options = pooled(True)(rng)
    arguments["x"][~options["mask"]] = np.nan
    return arguments, options


def pooled_with_equal_maxima(rng):
    x = rng.standard_normal(tuple(sizes(rng, 3)))
    x[:, -1] = x[:, 0] = 9
    return {"x": x}, {}


PADDING = Level(pooled_with_nan, "Padding holds NaN here, and does not count.", required=False)
TIES = "Of equal maxima, the gradient goes to the first."
PROBLEMS = {
    "batch_norm": FunctionProblem(
        F.batch_norm, F.batch_norm_backward, ("x", "weight", "bias"), {
            "plain": normed, "a mean far from 0": Level(offset, OFFSET)}),
    "batch_norm_inference": FunctionProblem(
        F.batch_norm_inference, F.batch_norm_inference_backward, ("x", "weight", "bias"), {
            "plain": normed_with_statistics}),
    "masked_batch_norm": FunctionProblem(
        F.masked_batch_norm, F.masked_batch_norm_backward, ("x", "weight", "bias"), {
            "plain": normed_with_padding}),
    "patches": FunctionProblem(F.patches, F.patches_backward, ("images",), {"plain": cut}),
    "patch_convolution": FunctionProblem(
        F.patch_convolution, F.patch_convolution_backward, ("images", "weight", "bias"), {
            "plain": convolved, "no bias": left_out(convolved, "bias")}),
    "mean_pooling": FunctionProblem(F.mean_pooling, F.mean_pooling_backward, ("x",), {
        "plain": pooled(False), "a mask": pooled(True), "NaN behind the mask": PADDING}),
    "max_pooling": FunctionProblem(F.max_pooling, F.max_pooling_backward, ("x",), {
        "plain": pooled(False), "a mask": pooled(True), "NaN behind the mask": PADDING,
        "equal maxima": Level(pooled_with_equal_maxima, TIES, required=False)}),
}
