"""The gradient of cross-entropy: what was said, minus what was true.

L = mean over positions of -log softmax(logits)[target], without those whose target is -100

dL is a number: the gradient of whatever comes after the loss.
"""
# goal: see logarithm and softmax cancel
# needs: cross_entropy, softmax_backward
# minutes: 15
# points: 3
# checks: cross_entropy_backward

import numpy as np


def cross_entropy_backward(dL, logits, targets):
    """The gradient of logits (B, T, V)."""
    # BEGIN SOLUTION
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    counts = (targets != -100)[..., None]                             # (B, T, 1)
    truth = np.eye(logits.shape[-1])[np.where(targets == -100, 0, targets)]       # (B, T, V)
    return dL * counts * (p - truth) / counts.sum()
    # END SOLUTION
