"""Find the bug: softmax.

One thing is wrong in this function. `numformer.check` says which gradient differs first, and where; find the line, and mend it.
"""
# goal: read somebody else's gradient, find the term that is wrong, and mend it
# needs: softmax_backward
# minutes: 10
# points: 3
# checks: softmax_backward

import numpy as np


def softmax_backward(dp, x):
    p = np.exp(x - x.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    # BEGIN SOLUTION
    return p * (dp - (p * dp).sum(axis=-1, keepdims=True))
    # END SOLUTION
    # BEGIN BUG the mean for the sum
    # return p * (dp - (p * dp).mean(axis=-1, keepdims=True))
    # END BUG
    # BEGIN BUG the weights are not in the sum
    # return p * (dp - dp.sum(axis=-1, keepdims=True))
    # END BUG
    # BEGIN BUG only the diagonal of the Jacobian
    # return p * (1 - p) * dp
    # END BUG
