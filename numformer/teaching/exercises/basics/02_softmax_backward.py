"""The gradient of softmax.

Each weight depends on every score of its row. With J_jk = dp_j / dx_k:

    J_jk = p_j (1 if j == k else 0) - p_j p_k

Multiply dp by J without building J. Scores of 1000 are allowed here, too.
"""
# goal: derive a backward from a Jacobian, without storing the Jacobian
# needs: softmax
# lessons: 4
# ideas: the Jacobian of softmax; a product with it that does not build it
# points: 3
# checks: softmax_backward

import numpy as np


def softmax_backward(dp, x):
    """The gradient dx (..., S), from dp of the same shape."""
    # BEGIN SOLUTION
    p = np.exp(x - x.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    return p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    # END SOLUTION
