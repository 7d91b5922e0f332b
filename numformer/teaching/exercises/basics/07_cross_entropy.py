"""Cross-entropy: minus the log-probability of the targets.

L = mean over positions of -log p(target),   p = softmax(logits)

Positions whose target is -100 are ignored. Compute the log-softmax directly, not the logarithm of
the softmax: log(0) is -Inf.
"""
# goal: compute log-probabilities without overflow
# needs: softmax
# lessons: 10
# ideas: log-softmax without overflow; one entry per position; a mean that leaves some out
# points: 2
# checks: cross_entropy
# levels: plain, an ignored target, unlikely targets, sizes of 1, large numbers

import numpy as np


def cross_entropy(logits, targets):
    """logits (B, T, V), targets (B, T) of int: a number."""
    # BEGIN SOLUTION
    top = logits.max(axis=-1, keepdims=True)
    log_p = logits - top - np.log(np.exp(logits - top).sum(axis=-1, keepdims=True))
    counts = targets != -100
    chosen = np.take_along_axis(log_p, np.where(counts, targets, 0)[..., None], axis=-1)[..., 0]
    return -chosen[counts].mean()
    # END SOLUTION
