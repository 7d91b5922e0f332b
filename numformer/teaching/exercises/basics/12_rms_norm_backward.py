"""The gradients of RMSNorm.

y = weight x r,   r = (<x^2> + 1e-5)^(-1/2),   <.> the mean over the last axis

There is one term less than in LayerNorm. Which one, and why?
"""
# goal: reuse a derivation
# needs: rms_norm, layer_norm_backward
# lessons: 7, 13
# ideas: the path through r; a sum over all vectors
# points: 3
# parts: dx 2, dweight 1
# checks: rms_norm_backward


def rms_norm_backward(dy, x, weight):
    """dx (..., C), dweight (C,)."""
    # BEGIN SOLUTION
    r = ((x * x).mean(axis=-1, keepdims=True) + 1e-5) ** -0.5
    x_hat, g = x * r, weight * dy
    dx = r * (g - x_hat * (g * x_hat).mean(axis=-1, keepdims=True))
    return dx, (dy * x_hat).sum(axis=tuple(range(x.ndim - 1)))
    # END SOLUTION
