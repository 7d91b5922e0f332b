"""DETR: its attention, block, heads and model; boxes and losses."""

FUNCTIONS = [
    ("generalized_iou_backward", "dg * (1 / outer - inner / union / union)",
     "-dg * inner / union / union", "without `1 / E`"),
    ("generalized_iou_backward", "np.where(_inner_sides(a, b).real > 0, dinner_sides, 0)",
     "dinner_sides + 0 * _inner_sides(a, b).real"),
]

LAYERS = [
    ("PositionedAttention.backward", "dx.sum(axis=0)", "dx.mean(axis=0)"),
    ("PositionedAttention.backward", "dkeys.sum(axis=0)", "dcontext.sum(axis=0)"),
    ("DETRBlock.backward", "dpositions + dp + dr", "dpositions + dp"),
    ("DETRBlock.backward", "add(dqueries, dcontext)", "dqueries"),
    ("ReferenceAttention.backward", "dpoints.sum(axis=0)", "dpoints.mean(axis=0)"),
    ("ReferenceAttention.backward", "dpositions = dx.sum(axis=0)", "dpositions = dx.mean(axis=0)"),
    ("BoxHead.backward", "sigmoid_backward(dy, saved_sigmoid)", "dy"),
    ("DETR.backward", "self.queries.grad += dqueries", "self.queries.grad = dqueries"),
    ("DETR.backward", "dr = dr + dof_positions", "dr = dr"),
]
