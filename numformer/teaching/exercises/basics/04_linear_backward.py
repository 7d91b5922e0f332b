"""The gradients of a linear map.

y = x W + b

Every vector of the batch uses the weight and the bias: their gradients are sums over all vectors.
"""
# goal: find the axes to sum over
# needs: linear
# lessons: 2, 6, 14
# ideas: a transposed product; a sum over all vectors
# points: 3
# parts: dx 1, dweight 1, dbias 1
# checks: linear_backward


def linear_backward(dy, x, weight, bias):
    """dx (..., C), dweight (C, F), dbias (F,), from dy (..., F)."""
    # BEGIN SOLUTION
    rows, drows = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    return dy @ weight.T, rows.T @ drows, drows.sum(axis=0)
    # END SOLUTION
