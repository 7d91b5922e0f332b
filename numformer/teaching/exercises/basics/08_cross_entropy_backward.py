"""The gradient of cross-entropy: prediction minus target.

L = mean over positions of -log softmax(logits)[target]; positions with target -100 are ignored

dL is a number: the gradient of the loss from whatever follows it.
"""
# goal: see logarithm and softmax cancel
# needs: cross_entropy, softmax_backward
# lessons: 10
# ideas: prediction minus target; the factor of the mean; positions without a gradient
# points: 3
# checks: cross_entropy_backward
# levels: plain, an ignored target, sizes of 1, large numbers, a large dy

import numpy as np


def cross_entropy_backward(dL, logits, targets):
    """The gradient of logits (B, T, V)."""
    # BEGIN SOLUTION
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    counts = (targets != -100)[..., None]                             # (B, T, 1)
    one_hot = np.eye(logits.shape[-1])[np.where(targets == -100, 0, targets)]       # (B, T, V)
    return dL * counts * (p - one_hot) / counts.sum()
    # END SOLUTION
