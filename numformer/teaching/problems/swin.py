"""Problems on windows of images, attention within them, and merged patches."""

import numpy as np

from numformer import functional as F
from numformer.functional import AttentionPattern, shifted_window_mask
from numformer.teaching.problems.problem import FunctionProblem, SomeOfSizeOne, sizes


def partitioned(rng):
    B, rows, columns, C = sizes(rng, 4)
    M = int(rng.integers(2, 4))
    return {"x": rng.standard_normal((B, M * rows, M * columns, C)), "window": M}, {}


def reversed_(rng):
    B, rows, columns, C = sizes(rng, 4)
    M = int(rng.integers(2, 4))
    return {"windows": rng.standard_normal((B * rows * columns, M * M, C)), "height": M * rows,
            "width": M * columns}, {}


def rolled(rng):
    B, height, width, C = sizes(rng, 4)
    return {"x": rng.standard_normal((B, height + 2, width + 2, C)), "offset": 1}, {}


def looked_up(rng):
    H, M = sizes(rng, 2)
    M = M if isinstance(rng, SomeOfSizeOne) else min(M, 4)
    return {"table": rng.standard_normal(((2 * M - 1) ** 2, H)), "window": M}, {}


def attended(shifted):
    def make(rng):
        B, H, D = sizes(rng, 3)
        mask = np.tile(shifted_window_mask(4, 4, 2, 1), (B, 1, 1))[:, None]       # (4 B, 1, 4, 4)
        q, k, v = rng.standard_normal((3, 4 * B, H, 4, D))
        return {"q": q, "k": k, "v": v, "bias": rng.standard_normal((H, 4, 4))}, {
            "pattern": AttentionPattern(mask=mask)} if shifted else {}
    return make


def merged(rng):
    B, rows, columns, C = sizes(rng, 4)
    return {"x": rng.standard_normal((B, 2 * rows, 2 * columns, C))}, {}


PROBLEMS = {
    "window_partition": FunctionProblem(
        F.window_partition, F.window_partition_backward, ("x",), {"plain": partitioned}),
    "window_reverse": FunctionProblem(
        F.window_reverse, F.window_reverse_backward, ("windows",), {"plain": reversed_}),
    "cyclic_roll": FunctionProblem(
        F.cyclic_roll, F.cyclic_roll_backward, ("x",), {"plain": rolled}),
    "window_position_bias": FunctionProblem(
        F.window_position_bias, F.window_position_bias_backward, ("table",), {"plain": looked_up}),
    "window_attention": FunctionProblem(
        F.window_attention, F.window_attention_backward, ("q", "k", "v", "bias"), {
            "plain": attended(False), "a mask": attended(True)}),
    "merge_patches": FunctionProblem(
        F.merge_patches, F.merge_patches_backward, ("x",), {"plain": merged}),
}
