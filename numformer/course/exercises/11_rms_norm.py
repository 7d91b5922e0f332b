"""RMSNorm: every vector gets the same length.

y = gain x / sqrt(<x^2> + 1e-5), the mean over the last axis
"""
# goal: see what LayerNorm can do without
# needs: layer_norm
# minutes: 5
# points: 1
# checks: rms_norm

import numpy as np


def rms_norm(x, gain):
    """x (..., C), gain (C,) to y (..., C)."""
    # BEGIN SOLUTION
    return gain * x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5)
    # END SOLUTION
