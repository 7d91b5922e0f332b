"""A linear map of every vector.

y = x W + b

x may have any number of axes before its last.
"""
# goal: see a layer as a matrix product
# needs: nothing
# lessons: 1
# ideas: a layer is a matrix product
# points: 1
# checks: linear


def linear(x, weight, bias):
    """x (..., C), weight (C, F), bias (F,) to y (..., F)."""
    # BEGIN SOLUTION
    return x @ weight + bias
    # END SOLUTION
