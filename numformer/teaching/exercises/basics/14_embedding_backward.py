"""The gradient of an embedding.

The gradient of a row of the table is the sum of dy over all positions that looked it up. An id may
occur several times: dweight[ids] += dy adds only one of its gradients, np.add.at adds all.
"""
# goal: sum the gradients of a value that is used several times
# needs: embedding
# ideas: gradients of several uses are added; repeated indices
# points: 3
# checks: embedding_backward
# BEGIN HINTS
# 1. Begin with zeros of the shape of weight. Every position adds its dy to the row of its id.
# 2. `dweight[ids] += dy` reads, adds and writes each row once, so a repeated id keeps one
#    gradient alone. The function named in the text adds all of them.
# 3. dweight = np.zeros_like(weight), then np.add.at(dweight, ids, dy).
# END HINTS

import numpy as np


def embedding_backward(dy, ids, weight):
    """dweight (V, C), from dy (B, T, C)."""
    # BEGIN SOLUTION
    dweight = np.zeros_like(weight)
    np.add.at(dweight, ids, dy)
    return dweight
    # END SOLUTION
