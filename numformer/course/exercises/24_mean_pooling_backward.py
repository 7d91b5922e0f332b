"""The gradient of a mean.

y = <x_t> over the T places

as Sentence-BERT makes one vector of many.
"""
# goal: spread a gradient evenly
# needs: nothing
# minutes: 10
# points: 2
# checks: mean_pooling_backward

import numpy as np


def mean_pooling_backward(dy, x):
    """The gradient of x (B, T, C), from dy (B, C)."""
    # BEGIN SOLUTION
    return np.repeat(dy[:, None] / x.shape[1], x.shape[1], axis=1)
    # END SOLUTION
