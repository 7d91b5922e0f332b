"""Find the bug: softmax.

One thing is wrong in this function. `numformer grade 25` names the first gradient that differs,
where, and by how much; finding the cause is the exercise. Find the line and correct it.
"""
# goal: read a gradient written by somebody else, and find and correct the wrong term
# needs: softmax_backward
# lessons: 8, 11
# ideas: read a formula in code
# points: 3
# parts: all or nothing
# checks: softmax_backward
# BEGIN HINTS
# 1. Derive dx from p and dp again, as in exercise 2, and compare it with the last line term
#    by term.
# 2. dx_k = p_k (dp_k - sum_j p_j dp_j). Check whether both terms are in the code, how the sum
#    is formed, and what it is taken of.
# 3. The cause: {bug}.
# END HINTS

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
