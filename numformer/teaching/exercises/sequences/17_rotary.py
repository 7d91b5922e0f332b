"""Rotary positions: rotate every pair of coordinates by an angle proportional to the position.

Coordinates i and i + D/2 are a pair (a, b):

    y_a = x_a cos - x_b sin,   y_b = x_a sin + x_b cos
"""
# goal: encode positions as rotations
# needs: nothing
# lessons: 3
# ideas: pairs of coordinates; a rotation of each pair
# points: 2
# checks: rotary

import numpy as np


def rotary(x, cosine, sine):
    """x (..., T, D), cosine and sine (T, D/2) to y (..., T, D)."""
    # BEGIN SOLUTION
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cosine - b * sine, a * sine + b * cosine], axis=-1)
    # END SOLUTION
