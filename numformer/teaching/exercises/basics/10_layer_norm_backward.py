"""The gradients of LayerNorm.

y = weight x_hat + bias,   x_hat = (x - mean) r,   r = (variance + 1e-5)^(-1/2)

x affects y in three ways: directly, through the mean, and through the variance. Each of them gives
one term of dx. Begin with the gradient of x_hat, and derive the terms one by one on paper.
"""
# goal: differentiate through a mean and a variance
# needs: layer_norm
# lessons: 10
# ideas: a direct path; a path through the mean; one through the variance; sums over vectors
# points: 4
# parts: dx 2, dweight 1, dbias 1
# checks: layer_norm_backward


def layer_norm_backward(dy, x, weight, bias):
    """dx (..., C), dweight and dbias (C,)."""
    # BEGIN SOLUTION
    centred = x - x.mean(axis=-1, keepdims=True)
    r = ((centred * centred).mean(axis=-1, keepdims=True) + 1e-5) ** -0.5
    x_hat, g, axes = centred * r, weight * dy, tuple(range(x.ndim - 1))
    dx = r * (g - g.mean(axis=-1, keepdims=True) - x_hat * (g * x_hat).mean(axis=-1, keepdims=True))
    return dx, (dy * x_hat).sum(axis=axes), dy.sum(axis=axes)
    # END SOLUTION
