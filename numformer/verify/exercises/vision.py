"""Exercises on BatchNorm, patches and pooling."""

from numformer import functional as F
from numformer.verify.exercises.exercise import Exercise, sizes


def normed(masked=False, given=False):
    def make(rng):
        B, T, C = sizes(rng, 3)
        arguments = {"x": 2 * rng.standard_normal((B, T, C)) + 0.7, "gain": rng.standard_normal(C), "shift": rng.standard_normal(C)}
        return arguments, {**({"mask": real(rng, B, T)} if masked else {}),
                           **({"statistics": (rng.standard_normal(C), 0.5 + rng.random(C))} if given else {})}
    return make


def real(rng, B, T):
    """A mask of every kind of row, with some real positions in each."""
    mask = rng.random((B, T)) < 0.6
    mask[:, 0], mask[0, 1] = True, False
    return mask


def images(rng):
    """A patch size, how many patches down and across, channels, and images."""
    B, rows, columns, channels = sizes(rng, 4)
    P = int(rng.integers(2, 4))
    return P, channels, rng.standard_normal((B, P * rows, P * columns, channels))


def cut(rng):
    P, _, x = images(rng)
    return {"images": x, "patch_size": P}, {}


def convolved(rng):
    P, channels, x = images(rng)
    C = channels + 1
    return {"images": x, "weight": rng.standard_normal((P, P, channels, C)), "bias": rng.standard_normal(C)}, {}


def pooled(masked):
    def make(rng):
        B, T, C = sizes(rng, 3)
        return {"x": rng.standard_normal((B, T, C))}, {"mask": real(rng, B, T)} if masked else {}
    return make


EXERCISES = {
    "batch_norm": Exercise(F.batch_norm, F.batch_norm_backward, ("x", "gain", "shift"), {
        "plain": normed(), "statistics given": normed(given=True), "a mask": normed(masked=True)}),
    "patches": Exercise(F.patches, F.patches_backward, ("images",), {"plain": cut}),
    "patch_convolution": Exercise(F.patch_convolution, F.patch_convolution_backward, ("images", "weight", "bias"), {"plain": convolved}),
    "mean_pooling": Exercise(F.mean_pooling, F.mean_pooling_backward, ("x",), {"plain": pooled(False), "a mask": pooled(True)}),
    "max_pooling": Exercise(F.max_pooling, F.max_pooling_backward, ("x",), {"plain": pooled(False), "a mask": pooled(True)}),
}
