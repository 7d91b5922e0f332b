"""Softmax: scores become weights that sum to 1.

p_j = exp(x_j) / sum_k exp(x_k), over the last axis

Scores of 1000 are allowed: exp(1000) is Inf, but p does not change when the same constant is
subtracted from all scores of a row.
"""
# goal: write softmax so that it does not overflow
# needs: nothing
# lessons: 1
# ideas: a constant that cancels; one sum for each row
# points: 2
# checks: softmax

import numpy as np


def softmax(x):
    """x (..., S) to p, of the same shape."""
    # BEGIN SOLUTION
    shifted = np.exp(x - x.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)
    # END SOLUTION
