"""The gradients of a linear map.

y = x W + b

Every vector of the batch uses the weight and the bias: their gradients are sums over all vectors.
"""
# goal: find the axes to sum over
# needs: linear
# ideas: a transposed product; a sum over all vectors
# points: 3
# parts: dx 1, dweight 1, dbias 1
# checks: linear_backward
# BEGIN HINTS
# 1. Each gradient has the shape of its array. For one vector, y_f = sum_c x_c W_cf + b_f:
#    which entries of y depend on x_c, on W_cf and on b_f?
# 2. dx needs no sum over the batch: (..., F) @ (F, C). dweight and dbias are sums over all
#    vectors: first reshape x to (N, C) and dy to (N, F).
# 3. dx = dy @ weight.T, dweight = rows.T @ drows and dbias = drows.sum(axis=0), where rows
#    and drows are the reshaped x and dy.
# END HINTS


def linear_backward(dy, x, weight, bias):
    """dx (..., C), dweight (C, F), dbias (F,), from dy (..., F)."""
    # BEGIN SOLUTION
    rows, drows = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    return dy @ weight.T, rows.T @ drows, drows.sum(axis=0)
    # END SOLUTION
