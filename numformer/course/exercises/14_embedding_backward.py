"""The gradient of a table.

Each row of the table collects the gradients of all places that looked it up. The same id may come twice, and dweight[ids] += dy
adds only one of them: NumPy's np.add.at adds all.
"""
# goal: add up what was used several times
# needs: embedding
# minutes: 15
# points: 3
# checks: embedding_backward

import numpy as np


def embedding_backward(dy, ids, weight):
    """dweight (V, C), from dy (B, T, C)."""
    # BEGIN SOLUTION
    dweight = np.zeros_like(weight)
    np.add.at(dweight, ids, dy)
    return dweight
    # END SOLUTION
