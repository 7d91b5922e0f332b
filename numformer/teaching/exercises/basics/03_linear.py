"""A linear map of every vector.

y = x W + b

x may have any number of axes before its last.
"""
# goal: see a layer as a matrix product
# needs: nothing
# ideas: a layer is a matrix product
# points: 1
# checks: linear
# BEGIN HINTS
# 1. All vectors along the last axis are multiplied by the same matrix.
# 2. (..., C) @ (C, F) is (..., F): `@` multiplies the last two axes and keeps the others. The
#    bias (F,) is broadcast.
# 3. y = x @ weight + bias.
# END HINTS


def linear(x, weight, bias):
    """x (..., C), weight (C, F), bias (F,) to y (..., F)."""
    # BEGIN SOLUTION
    return x @ weight + bias
    # END SOLUTION
