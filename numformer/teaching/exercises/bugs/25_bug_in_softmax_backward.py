"""Find the bug: softmax.

One thing is wrong in this function. `numformer.check` names the first gradient that differs, and
where. Find the line and correct it.
"""
# goal: read a gradient written by somebody else, and find and correct the wrong term
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
    # BEGIN BUG a mean instead of a sum
    # return p * (dp - (p * dp).mean(axis=-1, keepdims=True))
    # END BUG
    # BEGIN BUG the sum is not weighted
    # return p * (dp - dp.sum(axis=-1, keepdims=True))
    # END BUG
    # BEGIN BUG only the diagonal of the Jacobian
    # return p * (1 - p) * dp
    # END BUG
