"""LayerNorm: every vector gets mean 0 and variance 1, then a gain and a shift.

y = gain (x - mean) / sqrt(variance + 1e-5) + shift, mean and variance over the last axis
"""
# goal: normalize over the right axis
# needs: nothing
# minutes: 10
# points: 2
# checks: layer_norm

import numpy as np


def layer_norm(x, gain, shift):
    """x (..., C), gain and shift (C,) to y (..., C)."""
    # BEGIN SOLUTION
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return gain * centred / np.sqrt(variance + 1e-5) + shift
    # END SOLUTION
