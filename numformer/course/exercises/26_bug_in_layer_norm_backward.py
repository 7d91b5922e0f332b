"""Find the bug: LayerNorm.

One thing is wrong in this function. `numformer.check` says which gradient differs first, and where; find the line, and mend it.
"""
# goal: read somebody else's gradient, find the term that is wrong, and mend it
# needs: layer_norm_backward
# minutes: 15
# points: 3
# checks: layer_norm_backward


def layer_norm_backward(dy, x, gain, shift):
    centred = x - x.mean(axis=-1, keepdims=True)
    r = ((centred * centred).mean(axis=-1, keepdims=True) + 1e-5) ** -0.5
    x_hat, axes = centred * r, tuple(range(x.ndim - 1))
    # BEGIN SOLUTION
    g = gain * dy
    dx = r * (g - g.mean(axis=-1, keepdims=True) - x_hat * (g * x_hat).mean(axis=-1, keepdims=True))
    # END SOLUTION
    # BEGIN BUG the gain is forgotten
    # g = dy
    # dx = r * (g - g.mean(axis=-1, keepdims=True) - x_hat * (g * x_hat).mean(axis=-1, keepdims=True))
    # END BUG
    # BEGIN BUG the way through the mean is forgotten
    # g = gain * dy
    # dx = r * (g - x_hat * (g * x_hat).mean(axis=-1, keepdims=True))
    # END BUG
    # BEGIN BUG the way through the variance is forgotten
    # g = gain * dy
    # dx = r * (g - g.mean(axis=-1, keepdims=True))
    # END BUG
    return dx, (dy * x_hat).sum(axis=axes), dy.sum(axis=axes)
