"""The gradients of attention.

scores = q k^T / sqrt(D),   p = softmax(scores),   o = p v

Go backward line by line: o = p v gives dv and dp, the softmax gives dscores from dp, and the scores
give dq and dk. Do not forget the division by sqrt(D).
"""
# goal: compose three backwards
# needs: scaled_dot_product_attention, softmax_backward, linear_backward
# lessons: 4, 11
# ideas: the backward of a product; the backward of softmax; the scale; the order of the steps
# points: 5
# parts: dq 2, dk 2, dv 1
# checks: scaled_dot_product_attention_backward

import numpy as np


def scaled_dot_product_attention_backward(do, q, k, v):
    """dq (B, H, T, D), dk and dv (B, H, S, D)."""
    # BEGIN SOLUTION
    scale = q.shape[-1] ** -0.5
    scores = q @ k.swapaxes(-1, -2) * scale
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)

    # o = p v
    dv, dp = p.swapaxes(-1, -2) @ do, do @ v.swapaxes(-1, -2)

    # p = softmax(scores)
    dscores = p * (dp - (p * dp).sum(axis=-1, keepdims=True))

    # scores = q k^T scale
    return dscores @ k * scale, dscores.swapaxes(-1, -2) @ q * scale, dv
    # END SOLUTION
