"""DETR: its attention, block, heads and model; boxes and losses."""

FUNCTIONS = [
    ("box_corners_backward", "(dupper - dlower) / 2", "(dlower - dupper) / 2",
     "signs of the size"),
    ("box_corners_backward", "(dupper - dlower) / 2", "(dupper - dlower)", "factor 1/2"),
    ("generalized_iou_backward", "dg * (1 / outer - inner / union / union)",
     "-dg * inner / union / union", "without `1 / outer`"),
    ("generalized_iou_backward", "np.where(_inner_sides(a, b).real > 0, dinner_sides, 0)",
     "dinner_sides + 0 * _inner_sides(a, b).real", None),
    ("weighted_cross_entropy_backward", "of_targets - 1", "of_targets", "one-hot"),
    ("weighted_cross_entropy_backward", "(float(dloss) * w)[..., None]",
     "float(dloss) / w.size", "weights of the classes"),
    ("box_loss_backward", "return dboxes + dmean * l1_weight * sign", "return dboxes",
     "L1 distance is missing"),
    ("box_loss_backward", "-dmean * giou_weight", "dmean * giou_weight", "overlap"),
]

LAYERS = [
    ("PositionedAttention.backward", "dx.sum(axis=0)", "dx.mean(axis=0)"),
    ("PositionedAttention.backward", "dkeys.sum(axis=0)", "dcontext.sum(axis=0)"),
    ("DETRBlock.backward", "dpositions + dp + dr", "dpositions + dp"),
    ("DETRBlock.backward", "add(dqueries, dcontext)", "dqueries"),
    ("BoxHead.backward", "sigmoid_backward(dy, saved_sigmoid)", "dy"),
    ("DETR.backward", "self.queries.grad += dqueries", "self.queries.grad = dqueries"),
    ("DETR.backward", "dr = dr + dof_positions", "dr = dr"),
]
