"""Find the bug: cross-entropy.

One thing is wrong in this function. `numformer grade 30` names the first gradient that differs,
where, and by how much; finding the cause is the exercise. Find the line and correct it.
"""
# goal: read a gradient written by somebody else, and find and correct the wrong term
# needs: cross_entropy_backward
# lessons: 8, 10
# ideas: read a formula in code
# points: 3
# parts: all or nothing
# checks: cross_entropy_backward
# levels: plain, an ignored target
# BEGIN HINTS
# 1. Take two positions, one of them ignored, and compute the gradient by hand for dL = 1 and
#    for dL = 2.
# 2. The gradient has four factors: dL, the mask of ignored positions, p - one_hot, and 1 /
#    the number of positions in the mean. Check each of them.
# 3. The cause: {bug}.
# END HINTS

import numpy as np


def cross_entropy_backward(dL, logits, targets):
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    counts = (targets != -100)[..., None]
    one_hot = np.eye(logits.shape[-1])[np.where(targets == -100, 0, targets)]
    # BEGIN SOLUTION
    return dL * counts * (p - one_hot) / counts.sum()
    # END SOLUTION
    # BEGIN BUG the loss is a mean, but this is the gradient of the sum
    # return dL * counts * (p - one_hot)
    # END BUG
    # BEGIN BUG the gradient of the loss is missing
    # return counts * (p - one_hot) / counts.sum()
    # END BUG
    # BEGIN BUG ignored positions are counted in the mean
    # return dL * counts * (p - one_hot) / targets.size
    # END BUG
