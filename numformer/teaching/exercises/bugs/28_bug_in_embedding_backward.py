"""Find the bug: embedding.

One thing is wrong in this function. `numformer grade 28` names the first gradient that differs,
where, and by how much; finding the cause is the exercise. Find the line and correct it.
"""
# goal: read a gradient written by somebody else, and find and correct the wrong term
# needs: embedding_backward
# lessons: 10
# ideas: read a formula in code
# points: 3
# parts: all or nothing
# checks: embedding_backward
# BEGIN HINTS
# 1. Take ids = [[0, 0]] and a dy of ones. What must row 0 of dweight be, and what does the
#    code give?
# 2. A row of dweight is the sum of dy over all positions that have its id. Does the line that
#    writes into dweight add, and does it add for each position?
# 3. The cause: {bug}.
# END HINTS

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
