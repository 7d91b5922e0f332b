"""Object detection: boxes, their overlap, and the losses of DETR."""

import numpy as np

from numformer import functional as F
from numformer.specifications.levels import also, sizes
from numformer.specifications.pair import Pair
from numformer.specifications.specification import specify


# ---- box_corners ---------------------------------------------------------------------------------

def some_boxes(rng, n):
    """Boxes by centre and size."""
    return np.concatenate([rng.random((n, 2)), 0.2 + 0.5 * rng.random((n, 2))], axis=1)


def to_convert(rng):
    n, = sizes(rng, 1)
    return {"boxes": some_boxes(rng, n)}, {}


def halves(dy):
    return dy[..., :2], dy[..., 2:]


def size_with_signs_exchanged(dy, boxes):
    lower, upper = halves(dy)
    return np.concatenate([lower + upper, (lower - upper) / 2], axis=-1)


def size_without_half(dy, boxes):
    lower, upper = halves(dy)
    return np.concatenate([lower + upper, upper - lower], axis=-1)


specify(
    F.box_corners, ("boxes",),
    {"plain": to_convert},
    cases=[Pair("box corners", [(3, 2, 4)])],
    mistakes=[
        ("the signs of the size are exchanged: the upper corner grows with it",
         size_with_signs_exchanged),
        ("the factor 1/2 of the size is missing", size_without_half)],
    last_axes={"boxes": 1},
    hints=(
        "A box is its centre and its size; the lower corner is half a size before the centre, the "
        "upper one half a size after it.",
        "boxes (..., 4) holds the centre in [..., :2] and the size in [..., 2:]; the corners have "
        "the same shape, the lower one first.",
        "Concatenate centre - size / 2 and centre + size / 2 along the last axis."),
    backward_hints=(
        "The centre enters both corners with 1, the size one with -1/2 and the other with 1/2: "
        "each sums two paths.",
        "Split dcorners into lower and upper, two entries each. Nothing has to be saved: the map "
        "is linear.",
        "The centre gets dlower + dupper, the size their difference, upper minus lower, over 2; "
        "concatenate in this order."))


# ---- generalized_iou -----------------------------------------------------------------------------

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


def areas(a, b):
    """Sides of the intersection, of both boxes, and of the enclosing box."""
    inner = np.maximum(np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2]), 0)
    outer = np.maximum(a[..., 2:], b[..., 2:]) - np.minimum(a[..., :2], b[..., :2])
    return inner, outer


def plain_iou(dg, a, b):
    """The gradient without the enclosing box: the whole less that of union / enclosing area."""
    inner, _ = areas(a, b)
    area_a, area_b = ((x[..., 2:] - x[..., :2]).prod(axis=-1) for x in (a, b))
    I = inner.prod(axis=-1)                                           # noqa: E741
    U = area_a + area_b - I
    dI, dA = dg * (1 / U + I / U ** 2), -dg * I / U ** 2
    gradients = []
    for one, other in ((a, b), (b, a)):
        sides = one[..., 2:] - one[..., :2]
        dsides, dinner = dA[..., None] * sides[..., ::-1], dI[..., None] * inner[..., ::-1]
        dinner = np.where(inner > 0, dinner, 0)
        gradients.append(np.concatenate([
            -dsides - np.where(one[..., :2] >= other[..., :2], dinner, 0),
            dsides + np.where(one[..., 2:] <= other[..., 2:], dinner, 0)], axis=-1))
    return tuple(gradients)


def iou_of_the_first_alone(dg, a, b):
    da, db = F.generalized_iou_backward(dg, F.generalized_iou(a, b)[1])
    return da, np.zeros_like(db)


def corners(a, b):
    """Boxes that overlap, contain each other, or do not meet; from any numbers."""
    return tuple(np.concatenate([x[:, :2], x[:, :2] + 0.5 + x[:, 2:] ** 2], axis=1)
                 for x in (a, b))


specify(
    F.generalized_iou, ("a", "b"),
    {"plain": near, "boxes that do not meet": apart},
    cases=[Pair("generalized IoU", [(6, 4), (6, 4)], prepare=corners)],
    mistakes=[
        ("the enclosing box is left out of union / enclosing area: this is less than the gradient "
         "of the generalized IoU", plain_iou),
        ("b gets no gradient, but the overlap depends on both boxes", iou_of_the_first_alone)],
    last_axes={"a": 1, "b": 1}, names={"inner": "I", "union": "U", "outer": "E"},
    hints=(
        "Three areas are needed: of the intersection, of the union, and of the smallest box "
        "around both.",
        "Lower corners are in [..., :2]. Intersection: the greatest lower and the least upper "
        "corner, sides not below 0. Outer box: least lower, greatest upper.",
        "union = area of a + area of b - inner; g is inner / union - (outer - union) / outer."),
    backward_hints=(
        "Go back from g to the three areas, from each area to its two sides, from each side to "
        "the corner that decided it, of a or of b.",
        "With U = A + B - I: dU = dg (1 / E - I / U^2), dI = dg / U - dU, dE = -dg U / E^2; both "
        "areas get dU. The gradient of an area with respect to one side is the other side.",
        "An upper corner gets plus its side's gradient, a lower one minus. inner's sides pass "
        "only if positive. Where a's corner was the max or min, da gets it, else db."))


# ---- weighted_cross_entropy ----------------------------------------------------------------------

def weighted(rng):
    n, V = sizes(rng, 2)
    return {"logits": rng.standard_normal((n, V)), "targets": rng.integers(0, V, n),
            "weights": 0.1 + rng.random(V)}, {}


def entropy(change):
    """A backward with `change(p, onehot, w)`; w are the weights of the targets."""
    def gradients(dloss, logits, targets, weights):
        p, _ = F.softmax(logits)
        return dloss * change(p, np.eye(logits.shape[-1])[targets], weights[targets][:, None])
    return gradients


specify(
    F.weighted_cross_entropy, ("logits",),
    {"plain": weighted},
    mistakes=[
        ("the one-hot target is not subtracted from the prediction",
         entropy(lambda p, onehot, w: p * w / w.sum())),
        ("the weights of the classes are left out",
         entropy(lambda p, onehot, w: (p - onehot) / len(p))),
        ("the sum is divided by the number of targets, not by the sum of their weights",
         entropy(lambda p, onehot, w: (p - onehot) * w / len(p)))],
    last_axes={"logits": 1, "targets": 0},
    hints=(
        "Each position counts with the weight of its target's class; the sum is divided by the "
        "sum of these weights, not by the number of positions.",
        "w = weights[targets] has the shape of targets. log_p is the log-softmax over the last "
        "axis, with the maximum subtracted first.",
        "Choose log_p at the targets, multiply by w, sum, change the sign, and divide by w.sum()."),
    backward_hints=(
        "Position by position it is prediction minus target, as for any cross-entropy; the weight "
        "of the position is a constant factor.",
        "The factor is w_t / sum of w, with a new last axis to reach all V logits. The target's "
        "class decides the weight, for all logits of the row.",
        "dlogits = (p - onehot) * (dloss * w / w.sum())[..., None], with p the softmax."))


# ---- box_loss ------------------------------------------------------------------------------------

def distant(rng):
    n, = sizes(rng, 1)
    return {"boxes": some_boxes(rng, n), "targets": some_boxes(rng, n)}, {}


def losses(l1=5.0, giou=2.0, mean=True):
    """A backward of the box loss with these weights."""
    def gradients(dloss, boxes, targets):
        _, saved = F.box_loss(boxes, targets)
        sign, saved_corners, saved_giou, *_ = saved
        return F.box_loss_backward(dloss * (1 if mean else len(boxes)),
                                   (sign, saved_corners, saved_giou, l1, giou))
    return gradients


def of_corners(boxes, targets, l1_weight=5.0, giou_weight=2.0):
    """The L1 distance of the corners."""
    overlap = F.box_loss(boxes, targets, 0.0, giou_weight)[0]
    corners, of_targets = F.box_corners(boxes)[0], F.box_corners(targets)[0]
    return overlap + l1_weight * np.abs(corners - of_targets).sum() / max(len(boxes), 1)


specify(
    F.box_loss, ("boxes",),
    {"plain": distant, "l1_weight=0.7": also(distant, l1_weight=0.7),
     "giou_weight=0.3": also(distant, giou_weight=0.3)},
    mistakes=[
        ("the L1 distance is missing", losses(l1=0.0)),
        ("the overlap has the wrong sign: the loss is one minus it", losses(giou=-2.0)),
        ("the overlap is missing", losses(giou=0.0)),
        ("the gradient is that of the sum: it must be divided by the number of boxes",
         losses(mean=False))],
    forward_mistakes=[
        ("the L1 distance is of the corners, but must be of centres and sizes, as they are given",
         of_corners)],
    hints=(
        "Two terms for each box: the L1 distance of the four numbers, and 1 minus the generalized "
        "IoU. Average over boxes.",
        "The L1 distance is of centres and sizes, as given; the IoU needs corners: box_corners of "
        "both. N is the number of boxes, not of numbers.",
        "loss is l1_weight times the sum of |boxes - targets| plus giou_weight times the sum of 1 "
        "- g, divided by max(N, 1)."),
    backward_hints=(
        "boxes enter twice: the L1 distance, and g through the corners. Both gradients are added.",
        "The first is l1_weight sign(boxes - targets) / N. For the second, dg = -giou_weight / N "
        "for every box: the minus comes from 1 - g. Both times dloss.",
        "generalized_iou_backward of dg gives dcorners, box_corners_backward of it the second "
        "part; add dloss / N * l1_weight * sign."))
