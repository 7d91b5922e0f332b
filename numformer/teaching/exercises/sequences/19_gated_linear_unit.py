"""A gated linear unit: one input gates the other.

y = silu(g) h,   silu(g) = g / (1 + exp(-g))
"""
# goal: see what SwiGLU multiplies
# needs: activation
# lessons: 6, 15
# ideas: a gate is a factor
# points: 1
# checks: gated_linear_unit

import numpy as np


def gated_linear_unit(g, h):
    """g and h of one shape, with any number of axes, to y."""
    # BEGIN SOLUTION
    return g / (1 + np.exp(-g)) * h
    # END SOLUTION
