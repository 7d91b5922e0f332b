"""Mistakes in LayerNorm and RMSNorm."""


def norm_parts(dy, x, gain, centre, epsilon=1e-5, epsilon_inside=True):
    """g = gain * dy, x_hat, the reciprocal deviation, and the gradients of gain and shift."""
    centred = x - x.mean(axis=-1, keepdims=True) if centre else x
    square = (centred * centred).mean(axis=-1, keepdims=True)
    r = (square + epsilon) ** -0.5 if epsilon_inside else 1 / (square ** 0.5 + epsilon)
    x_hat = centred * r
    bend = 1.0 if epsilon_inside else (square ** 0.5 + epsilon) / square ** 0.5
    vectors = tuple(range(x.ndim - 1))
    return gain * dy, x_hat, r, bend, [(dy * x_hat).sum(axis=vectors)] + [dy.sum(axis=vectors)] * centre


def mean(x):
    return x.mean(axis=-1, keepdims=True)


def norm_of(centre, change):
    """A backward of LayerNorm (`centre`) or RMSNorm in which `change(g, x_hat, r, bend)` says what dx is."""
    def gradients(dy, x, gain, *shift, **options):
        g, x_hat, r, bend, more = norm_parts(dy, x, gain, centre, **options)
        return change(g, x_hat, r, bend), *more
    return gradients


def norm_without_gain(centre):
    def gradients(dy, x, gain, *shift, **options):
        g, x_hat, r, bend, more = norm_parts(dy, x, gain, centre, **options)
        return r * (dy - mean(dy) * centre - x_hat * bend * mean(dy * x_hat)), *more
    return gradients


def norm_with_sum_over(axes, centre):
    """The gradients of gain and shift, not summed over all tokens."""
    def gradients(dy, x, gain, *shift, **options):
        g, x_hat, r, bend, _ = norm_parts(dy, x, gain, centre, **options)
        dx = r * (g - mean(g) * centre - x_hat * bend * mean(g * x_hat))
        return dx, *(y.sum(axis=axes) if axes is not None else y for y in [dy * x_hat] + [dy] * centre)
    return gradients


def norm_mistakes(centre):
    both = [("the terms of the mean and of the variance are missing: they depend on x too", lambda g, x_hat, r, bend: r * g),
            ("the term of the mean is missing: adding a constant to x changes nothing, so dx must sum to 0",
             lambda g, x_hat, r, bend: r * (g - x_hat * bend * mean(g * x_hat)))] if centre else []
    return [
        *[(cause, norm_of(centre, change)) for cause, change in [
            *both,
            ("the term of the variance is missing: it depends on x too" if centre else
             "the term of the mean square is missing: it depends on x too", lambda g, x_hat, r, bend: r * (g - mean(g) * centre)),
            ("sums stand where means belong", lambda g, x_hat, r, bend:
             r * (g - g.sum(-1, keepdims=True) * centre - x_hat * bend * (g * x_hat).sum(-1, keepdims=True))),
            ("the factor 1 / sigma in front is missing", lambda g, x_hat, r, bend: g - mean(g) * centre - x_hat * bend * mean(g * x_hat)),
            ("with epsilon outside of the root, the variance's term has one more factor: (sigma + epsilon) / sigma",
             lambda g, x_hat, r, bend: r * (g - mean(g) * centre - x_hat * mean(g * x_hat)))]],
        ("the gain is missing: dy must be multiplied by it first", norm_without_gain(centre)),
        ("the sum over the tokens is missing: all of them share gain and shift", norm_with_sum_over(None, centre)),
        ("gain's gradient is summed over the batch alone: every token counts", norm_with_sum_over(0, centre)),
    ]


MISTAKES = {
    "layer_norm_backward": norm_mistakes(True),
    "rms_norm_backward": [
        *norm_mistakes(False),
        ("a mean is taken away, as in LayerNorm: RMSNorm has none",
         norm_of(False, lambda g, x_hat, r, bend: r * (g - mean(g) - x_hat * bend * mean(g * x_hat))))],
}
