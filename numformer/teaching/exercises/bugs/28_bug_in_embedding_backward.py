"""Find the bug: embedding.

One thing is wrong in this function. `numformer.check` names the first gradient that differs, and
where. Find the line and correct it.
"""
# goal: read a gradient written by somebody else, and find and correct the wrong term
# needs: embedding_backward
# minutes: 10
# points: 3
# checks: embedding_backward

import numpy as np


def embedding_backward(dy, ids, weight):
    dweight = np.zeros_like(weight)
    # BEGIN SOLUTION
    np.add.at(dweight, ids, dy)
    # END SOLUTION
    # BEGIN BUG of repeated ids, only one gradient is added
    # dweight[ids] += dy
    # END BUG
    # BEGIN BUG of repeated ids, only the last gradient is kept
    # dweight[ids] = dy
    # END BUG
    return dweight
