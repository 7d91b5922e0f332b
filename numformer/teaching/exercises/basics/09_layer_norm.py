"""LayerNorm: every vector gets mean 0 and variance 1, then a weight and a bias.

y = weight (x - mean) / sqrt(variance + 1e-5) + bias, mean and variance over the last axis
"""
# goal: normalize over the right axis
# needs: nothing
# lessons: 5
# ideas: statistics over the last axis; a constant inside the root
# points: 2
# checks: layer_norm

import numpy as np


def layer_norm(x, weight, bias):
    """x (..., C), weight and bias (C,) to y (..., C)."""
    # BEGIN SOLUTION
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return weight * centred / np.sqrt(variance + 1e-5) + bias
    # END SOLUTION
