"""The gradient of an embedding.

The gradient of a row of the table is the sum of dy over all positions that looked it up. An id may
occur several times: dweight[ids] += dy adds only one of its gradients, np.add.at adds all.
"""
# goal: sum the gradients of a value that is used several times
# needs: embedding
# lessons: 10, 13
# ideas: gradients of several uses are added; repeated indices
# points: 3
# checks: embedding_backward

import numpy as np


def embedding_backward(dy, ids, weight):
    """dweight (V, C), from dy (..., C) and ids (...) with any number of axes."""
    # BEGIN SOLUTION
    dweight = np.zeros_like(weight)
    np.add.at(dweight, ids, dy)
    return dweight
    # END SOLUTION
