"""Find the bug: LayerNorm.

One thing is wrong in this function. `numformer grade 26` names the first gradient that differs,
where, and by how much; finding the cause is the exercise. Find the line and correct it.
"""
# goal: read a gradient written by somebody else, and find and correct the wrong term
# needs: layer_norm_backward
# lessons: 8, 11
# ideas: read a formula in code
# points: 3
# parts: all or nothing
# checks: layer_norm_backward
# BEGIN HINTS
# 1. The grade names the gradient that is wrong; lines that only the others use need no
#    reading. How many terms does dx of LayerNorm have?
# 2. dx has three terms: the direct one, one through the mean, and one through the variance.
#    All three begin with the gradient with respect to x_hat, weight * dy.
# 3. The cause: {bug}.
# END HINTS


def layer_norm_backward(dy, x, weight, bias):
    centred = x - x.mean(axis=-1, keepdims=True)
    r = ((centred * centred).mean(axis=-1, keepdims=True) + 1e-5) ** -0.5
    x_hat, axes = centred * r, tuple(range(x.ndim - 1))
    # BEGIN SOLUTION
    g = weight * dy
    mean_g, mean_gx = g.mean(axis=-1, keepdims=True), (g * x_hat).mean(axis=-1, keepdims=True)
    dx = r * (g - mean_g - x_hat * mean_gx)
    # END SOLUTION
    # BEGIN BUG the weight is missing
    # g = dy
    # mean_g, mean_gx = g.mean(axis=-1, keepdims=True), (g * x_hat).mean(axis=-1, keepdims=True)
    # dx = r * (g - mean_g - x_hat * mean_gx)
    # END BUG
    # BEGIN BUG the term of the mean is missing
    # g = weight * dy
    # mean_gx = (g * x_hat).mean(axis=-1, keepdims=True)
    # dx = r * (g - x_hat * mean_gx)
    # END BUG
    # BEGIN BUG the term of the variance is missing
    # g = weight * dy
    # mean_g = g.mean(axis=-1, keepdims=True)
    # dx = r * (g - mean_g)
    # END BUG
    return dx, (dy * x_hat).sum(axis=axes), dy.sum(axis=axes)
