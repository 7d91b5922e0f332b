"""Problems on convolutions and pooling of images."""

import numpy as np

from numformer import functional as F
from numformer.teaching.problems.edges import left_out
from numformer.teaching.problems.problem import FunctionProblem, Level, sizes

OVERLAP = "Windows overlap here: a pixel is in several of them, and their gradients add up."


def convolved(**options):
    def make(rng):
        B, C, K, L = sizes(rng, 4)
        height, width, F_ = K + 4, L + 5, C + 1
        return {"images": rng.standard_normal((B, height, width, C)),
                "weight": rng.standard_normal((K, L, C, F_)), "bias": rng.standard_normal(F_)}, {
                    **options}
    return make


def pooled(overlapping):
    def make(rng):
        B, C, rows, columns = sizes(rng, 4)
        P = int(rng.integers(2, 4))
        images = rng.standard_normal((B, P * rows + 1, P * columns, C))
        return {"images": images, "size": P}, {"stride": P - 1} if overlapping else {}
    return make


def pooled_with_equal_maxima(rng):
    arguments, options = pooled(False)(rng)
    arguments["images"] = np.round(arguments["images"])
    return arguments, options


TIES = "Of equal maxima, the gradient goes to the first."
PROBLEMS = {
    "convolution_2d": FunctionProblem(
        F.convolution_2d, F.convolution_2d_backward, ("images", "weight", "bias"), {
            "plain": convolved(), "no bias": left_out(convolved(), "bias"),
            "padding": convolved(padding=2), "stride": convolved(stride=2)}),
    "max_pooling_2d": FunctionProblem(
        F.max_pooling_2d, F.max_pooling_2d_backward, ("images",), {
            "plain": pooled(False), "overlapping windows": Level(pooled(True), OVERLAP),
            "equal maxima": Level(pooled_with_equal_maxima, TIES, required=False)}),
    "mean_pooling_2d": FunctionProblem(
        F.mean_pooling_2d, F.mean_pooling_2d_backward, ("images",), {
            "plain": pooled(False), "overlapping windows": Level(pooled(True), OVERLAP)}),
}
