"""Problems on object detection: boxes, their overlap, and the losses of DETR."""

import numpy as np

from numformer import functional as F
from numformer.teaching.problems.problem import FunctionProblem, sizes


def some_boxes(rng, n):
    """Boxes by centre and size."""
    return np.concatenate([rng.random((n, 2)), 0.2 + 0.5 * rng.random((n, 2))], axis=1)


def to_convert(rng):
    n, = sizes(rng, 1)
    return {"boxes": some_boxes(rng, n)}, {}


def near(rng):
    """Pairs of corners that overlap."""
    n, = sizes(rng, 1)
    a = some_boxes(rng, n)
    b = np.concatenate([a[:, :2] + 0.05 * rng.standard_normal((n, 2)),
                        a[:, 2:] * (0.8 + 0.4 * rng.random((n, 2)))], axis=1)
    return {"a": F.box_corners(a)[0], "b": F.box_corners(b)[0]}, {}


def apart(rng):
    """Pairs of corners that do not meet."""
    arguments, options = near(rng)
    return {**arguments, "b": arguments["b"] + 3.0}, options


def weighted(rng):
    n, V = sizes(rng, 2)
    return {"logits": rng.standard_normal((n, V)), "targets": rng.integers(0, V, n),
            "weights": 0.1 + rng.random(V)}, {}


def distant(rng):
    n, = sizes(rng, 1)
    return {"boxes": some_boxes(rng, n), "targets": some_boxes(rng, n)}, {}


PROBLEMS = {
    "box_corners": FunctionProblem(F.box_corners, F.box_corners_backward, ("boxes",),
                                   {"plain": to_convert}),
    "generalized_iou": FunctionProblem(F.generalized_iou, F.generalized_iou_backward, ("a", "b"),
                                       {"plain": near, "boxes that do not meet": apart}),
    "weighted_cross_entropy": FunctionProblem(
        F.weighted_cross_entropy, F.weighted_cross_entropy_backward, ("logits",),
        {"plain": weighted}),
    "box_loss": FunctionProblem(F.box_loss, F.box_loss_backward, ("boxes",), {"plain": distant}),
}
