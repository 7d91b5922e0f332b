"""Attention: the output for a query is an average of the values, weighted by the softmax of scores.

o = softmax(q k^T / sqrt(D)) v
"""
# goal: write the equation of the paper
# needs: softmax
# lessons: 3
# ideas: scores as inner products; a softmax for each query; an average of values
# points: 3
# checks: scaled_dot_product_attention

import numpy as np


def scaled_dot_product_attention(q, k, v):
    """q (B, H, T, D), k and v (B, H, S, D) to o (B, H, T, D)."""
    # BEGIN SOLUTION
    scores = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5              # (B, H, T, S)
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    return p @ v
    # END SOLUTION
