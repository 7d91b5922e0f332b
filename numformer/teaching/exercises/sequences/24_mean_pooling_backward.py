"""The gradient of mean pooling.

y = mean of x_t over the T positions

Sentence-BERT makes one vector of a sentence in this way.
"""
# goal: distribute a gradient over the positions of a mean
# needs: nothing
# lessons: 14
# ideas: a mean distributes its gradient
# points: 2
# checks: mean_pooling_backward

import numpy as np


def mean_pooling_backward(dy, x):
    """The gradient of x (B, T, C), from dy (B, C)."""
    # BEGIN SOLUTION
    return np.repeat(dy[:, None] / x.shape[1], x.shape[1], axis=1)
    # END SOLUTION
