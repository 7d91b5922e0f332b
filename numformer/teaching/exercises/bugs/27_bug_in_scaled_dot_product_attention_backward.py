"""Find the bug: attention.

One thing is wrong in this function. `numformer grade 27` names the first gradient that differs,
where, and by how much; finding the cause is the exercise. Find the line and correct it.
"""
# goal: read a gradient written by somebody else, and find and correct the wrong term
# needs: scaled_dot_product_attention_backward
# lessons: 4, 8
# ideas: read a formula in code
# points: 3
# parts: all or nothing
# checks: scaled_dot_product_attention_backward
# BEGIN HINTS
# 1. Read the code in the order of the computation. If dv is right, so is p, and the bug is in
#    a later line.
# 2. Two steps are left: dscores = p * (dp - the sum of p * dp over each row), and the
#    gradients of scores = q k^T * scale. Check each axis and each factor.
# 3. The cause: {bug}.
# END HINTS

import numpy as np


def scaled_dot_product_attention_backward(do, q, k, v):
    scale = q.shape[-1] ** -0.5
    scores = q @ k.swapaxes(-1, -2) * scale
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    dv, dp = p.swapaxes(-1, -2) @ do, do @ v.swapaxes(-1, -2)
    # BEGIN SOLUTION
    dscores = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    dq, dk = dscores @ k * scale, dscores.swapaxes(-1, -2) @ q * scale
    # END SOLUTION
    # BEGIN BUG the scale is missing in the backward
    # dscores = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    # dq, dk = dscores @ k, dscores.swapaxes(-1, -2) @ q
    # END BUG
    # BEGIN BUG the sum in the Jacobian of the softmax is missing
    # dscores = p * dp
    # dq, dk = dscores @ k * scale, dscores.swapaxes(-1, -2) @ q * scale
    # END BUG
    # BEGIN BUG the sum is over the queries
    # dscores = p * (dp - (p * dp).sum(axis=-2, keepdims=True))
    # dq, dk = dscores @ k * scale, dscores.swapaxes(-1, -2) @ q * scale
    # END BUG
    return dq, dk, dv
