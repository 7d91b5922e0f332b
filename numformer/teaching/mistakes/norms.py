"""Mistakes in LayerNorm and RMSNorm."""


def norm_parts(dy, x, weight, centre, inside, epsilon=1e-5):
    """g = weight * dy, x_hat, 1 / sigma, kappa, and the gradients of weight and bias."""
    centred = x - x.mean(axis=-1, keepdims=True) if centre else x
    square = (centred * centred).mean(axis=-1, keepdims=True)
    r = (square + epsilon) ** -0.5 if inside else 1 / (square ** 0.5 + epsilon)
    x_hat = centred * r
    kappa = 1.0 if inside else (square ** 0.5 + epsilon) / square ** 0.5
    vectors = tuple(range(x.ndim - 1))
    more = [(dy * x_hat).sum(axis=vectors)] + [dy.sum(axis=vectors)] * centre
    return weight * dy, x_hat, r, kappa, more


def mean(x):
    return x.mean(axis=-1, keepdims=True)


def norm_of(centre, inside, change):
    """A backward of LayerNorm (`centre`) or RMSNorm with dx = `change(g, x_hat, r, kappa)`."""
    def gradients(dy, x, weight, *bias, **options):
        g, x_hat, r, kappa, more = norm_parts(dy, x, weight, centre, inside, **options)
        return change(g, x_hat, r, kappa), *more
    return gradients


def norm_without_weight(centre, inside):
    def gradients(dy, x, weight, *bias, **options):
        g, x_hat, r, kappa, more = norm_parts(dy, x, weight, centre, inside, **options)
        return r * (dy - mean(dy) * centre - x_hat * kappa * mean(dy * x_hat)), *more
    return gradients


def norm_with_sum_over(axes, centre, inside):
    """The gradients of weight and bias, not summed over all tokens."""
    def gradients(dy, x, weight, *bias, **options):
        g, x_hat, r, kappa, _ = norm_parts(dy, x, weight, centre, inside, **options)
        dx = r * (g - mean(g) * centre - x_hat * kappa * mean(g * x_hat))
        return dx, *(y.sum(axis=axes) if axes is not None else y
                     for y in [dy * x_hat] + [dy] * centre)
    return gradients


def norm_mistakes(centre, inside):
    both = [("the terms of the mean and of the variance are missing: they depend on x too",
             lambda g, x_hat, r, kappa: r * g),
            ("the term of the mean is missing: adding a constant to x changes nothing, so dx must "
             "sum to 0",
             lambda g, x_hat, r, kappa: r
             * (g - x_hat * kappa * mean(g * x_hat)))] if centre else []
    outside = [] if inside else [
        ("with epsilon outside the root, the term of the variance has another factor: "
         "(sigma + epsilon) / sigma",
         lambda g, x_hat, r, kappa: r * (g - mean(g) * centre - x_hat * mean(g * x_hat)))]
    return [
        *[(cause, norm_of(centre, inside, change)) for cause, change in [
            *both,
            ("the term of the variance is missing: it depends on x too" if centre else
             "the term of the mean square is missing: it depends on x too",
             lambda g, x_hat, r, kappa: r * (g - mean(g) * centre)),
            ("sums are used instead of means", lambda g, x_hat, r, kappa:
             r * (g - g.sum(-1, keepdims=True) * centre - x_hat * kappa
                  * (g * x_hat).sum(-1, keepdims=True))),
            ("the leading factor 1 / sigma is missing",
             lambda g, x_hat, r, kappa: g - mean(g) * centre - x_hat * kappa * mean(g * x_hat)),
            *outside]],
        ("the weight is missing: dy must be multiplied by it first",
         norm_without_weight(centre, inside)),
        ("the sum over the tokens is missing: all tokens share the parameters",
         norm_with_sum_over(None, centre, inside)),
        ("the gradient of the weight is summed over the batch only: it must be summed over all "
         "tokens", norm_with_sum_over(0, centre, inside)),
    ]


def rms_norm_mistakes(inside):
    return [
        *norm_mistakes(False, inside),
        ("a mean is subtracted, as in LayerNorm: RMSNorm has none",
         norm_of(False, inside, lambda g, x_hat, r, kappa:
                 r * (g - mean(g) - x_hat * kappa * mean(g * x_hat))))]


MISTAKES = {
    "layer_norm_backward": norm_mistakes(True, inside=True),
    "layer_norm_outside_backward": norm_mistakes(True, inside=False),
    "rms_norm_backward": rms_norm_mistakes(inside=True),
    "rms_norm_outside_backward": rms_norm_mistakes(inside=False),
}
