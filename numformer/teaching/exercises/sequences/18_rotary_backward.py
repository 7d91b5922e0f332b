"""The gradient of a rotation is a rotation.

y_a = x_a cos - x_b sin,   y_b = x_a sin + x_b cos

What is the transpose of a rotation?
"""
# goal: use the transpose of a rotation
# needs: rotary
# lessons: 7, 15, 18
# ideas: the transpose of a rotation
# points: 2
# checks: rotary_backward

import numpy as np


def rotary_backward(dy, x, cosine, sine):
    """The gradient of x (..., T, D)."""
    # BEGIN SOLUTION
    da, db = np.split(dy, 2, axis=-1)
    return np.concatenate([da * cosine + db * sine, db * cosine - da * sine], axis=-1)
    # END SOLUTION
