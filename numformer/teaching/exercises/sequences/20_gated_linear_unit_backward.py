"""The gradients of a gated linear unit.

y = silu(g) h,   silu(g) = g / (1 + exp(-g))
"""
# goal: differentiate a product of two inputs
# needs: gated_linear_unit
# ideas: the product rule; the derivative of silu
# points: 2
# parts: dg 1, dh 1
# checks: gated_linear_unit_backward
# BEGIN HINTS
# 1. y is a product: the gradient of each factor has the other factor in it.
# 2. dh = dy silu(g) and dg = dy h silu'(g). With s = 1 / (1 + exp(-g)), silu(g) = g s;
#    differentiate this product.
# 3. dg = dy * h * (s + g * s * (1 - s)), dh = dy * g * s.
# END HINTS

import numpy as np


def gated_linear_unit_backward(dy, g, h):
    """dg, dh."""
    # BEGIN SOLUTION
    s = 1 / (1 + np.exp(-g))
    return dy * h * (s + g * s * (1 - s)), dy * g * s
    # END SOLUTION
