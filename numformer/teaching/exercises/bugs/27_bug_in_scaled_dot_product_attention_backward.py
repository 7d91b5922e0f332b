"""Find the bug: attention.

One thing is wrong in this function. `numformer.check` names the first gradient that differs, and
where. Find the line and correct it.
"""
# goal: read a gradient written by somebody else, and find and correct the wrong term
# needs: scaled_dot_product_attention_backward
# minutes: 15
# points: 3
# checks: scaled_dot_product_attention_backward

import numpy as np


def scaled_dot_product_attention_backward(do, q, k, v):
    scale = 1 / np.sqrt(q.shape[-1])
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
