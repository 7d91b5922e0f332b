"""Find the bug: cross-entropy.

One thing is wrong in this function. `numformer.check` says which gradient differs first, and where; find the line, and mend it.
"""
# goal: read somebody else's gradient, find the term that is wrong, and mend it
# needs: cross_entropy_backward
# minutes: 10
# points: 3
# checks: cross_entropy_backward

import numpy as np


def cross_entropy_backward(dL, logits, targets):
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    counts = (targets != -100)[..., None]
    truth = np.eye(logits.shape[-1])[np.where(targets == -100, 0, targets)]
    # BEGIN SOLUTION
    return dL * counts * (p - truth) / counts.sum()
    # END SOLUTION
    # BEGIN BUG the loss is a mean, but this is the gradient of the sum
    # return dL * counts * (p - truth)
    # END BUG
    # BEGIN BUG the gradient of what comes after is forgotten
    # return counts * (p - truth) / counts.sum()
    # END BUG
    # BEGIN BUG positions that do not count are counted
    # return dL * counts * (p - truth) / targets.size
    # END BUG
