"""The gradients of a gated linear unit.

y = silu(g) h,   silu(g) = g / (1 + exp(-g))
"""
# goal: differentiate a product of two inputs
# needs: gated_linear_unit
# lessons: 6, 7, 15
# ideas: the product rule; the derivative of silu
# points: 2
# parts: dg 1, dh 1
# checks: gated_linear_unit_backward

import numpy as np


def gated_linear_unit_backward(dy, g, h):
    """dg, dh, from dy, g and h of one shape with any number of axes."""
    # BEGIN SOLUTION
    s = 1 / (1 + np.exp(-g))
    return dy * h * (s + g * s * (1 - s)), dy * g * s
    # END SOLUTION
