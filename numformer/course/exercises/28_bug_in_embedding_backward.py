"""Find the bug: a table that was looked up.

One thing is wrong in this function. `numformer.check` says which gradient differs first, and where; find the line, and mend it.
"""
# goal: read somebody else's gradient, find the term that is wrong, and mend it
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
    # BEGIN BUG of an id that comes twice, one gradient is lost
    # dweight[ids] += dy
    # END BUG
    # BEGIN BUG the last one wins
    # dweight[ids] = dy
    # END BUG
    return dweight
