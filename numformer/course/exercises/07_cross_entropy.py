"""Cross-entropy: how surprised a model is by what came.

L = mean over positions of -log p(target),   p = softmax(logits)

Positions whose target is -100 do not count. Take the logarithm of the softmax, not the softmax and then its logarithm: log(0) is -Inf.
"""
# goal: compute log-probabilities safely
# needs: softmax
# minutes: 10
# points: 2
# checks: cross_entropy

import numpy as np


def cross_entropy(logits, targets):
    """logits (B, T, V), targets (B, T) of int: a number."""
    # BEGIN SOLUTION
    top = logits.max(axis=-1, keepdims=True)
    log_p = logits - top - np.log(np.exp(logits - top).sum(axis=-1, keepdims=True))
    counts = targets != -100
    said = np.take_along_axis(log_p, np.where(counts, targets, 0)[..., None], axis=-1)[..., 0]
    return -said[counts].mean()
    # END SOLUTION
