"""RMSNorm: every vector gets the same root mean square.

y = weight x / sqrt(<x^2> + 1e-5), the mean over the last axis
"""
# goal: see which parts of LayerNorm are not needed
# needs: layer_norm
# lessons: 5, 15, 18
# ideas: a norm without a mean
# points: 1
# checks: rms_norm

import numpy as np


def rms_norm(x, weight):
    """x (..., C), weight (C,) to y (..., C)."""
    # BEGIN SOLUTION
    return weight * x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5)
    # END SOLUTION
