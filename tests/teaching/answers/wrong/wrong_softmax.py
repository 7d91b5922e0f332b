"""Wrong answers: softmax and log-softmax."""

import numpy as np
from scipy import special

from answers.corpus import wrong


@wrong("softmax_backward", "the sum runs over axis 0, the wrong axis")
def softmax_b_axis(dp, x):
    p = special.softmax(x, axis=-1)
    return p * (dp - (p * dp).sum(axis=0, keepdims=True))


@wrong("softmax_backward", "the sum over all weights is missing: only the diagonal p (1 - p)")
def softmax_b_diagonal(dp, x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return dp * p * (1 - p)


@wrong("softmax_backward", "plus for minus before the sum")
def softmax_b_plus(dp, x):
    p = special.softmax(x, axis=-1)
    return p * (dp + np.sum(p * dp, axis=-1, keepdims=True))


@wrong("softmax_backward", "the sum is of dp alone, without the weights p")
def softmax_b_unweighted(dp, x):
    p = special.softmax(x, axis=-1)
    return p * (dp - dp.sum(axis=-1, keepdims=True))


@wrong("softmax_backward", "mean for sum")
def softmax_b_mean(dp, x, axis=-1):
    p = special.softmax(x, axis=axis)
    return p * (dp - (p * dp).mean(axis=axis, keepdims=True))


@wrong("softmax_backward", "the factor p in front is forgotten")
def softmax_b_no_factor(dp, x):
    p = special.softmax(x, axis=-1)
    return dp - (p * dp).sum(axis=-1, keepdims=True)


@wrong("softmax_backward", "the sign of the whole gradient is wrong")
def softmax_b_sign(dp, x):
    p = special.softmax(x, axis=-1)
    out = np.zeros_like(x)
    for i in range(len(x)):
        out[i] = (np.outer(p[i], p[i]) - np.diag(p[i])) @ dp[i]
    return out


@wrong("softmax_backward", "the Jacobian has p on its diagonal and nothing elsewhere")
def softmax_b_only_p(dp, x):
    p = special.softmax(x, axis=-1)
    out = np.empty_like(x)
    for i, row in enumerate(p):
        out[i] = np.diag(row) @ dp[i]
    return out


@wrong("softmax_backward", "the sum runs over the whole array, not over each row")
def softmax_b_whole(dp, saved):
    p, axis, mask = saved
    return p * (dp - np.sum(p * dp))


@wrong("softmax_backward", "the last axis is used whatever axis was asked for")
def softmax_b_last(dp, x, axis=-1):
    p = special.softmax(x, axis=axis)
    return p * (dp - (p * dp).sum(axis=-1, keepdims=True))


@wrong("softmax_backward", "the mask is the wrong way round")
def softmax_b_inverted(dp, x, axis=-1, mask=None):
    if mask is not None:
        x = np.where(mask, -1e30, x)
    p = special.softmax(x, axis=axis)
    return p * (dp - (p * dp).sum(axis=axis, keepdims=True))


@wrong("softmax_backward", "the mask is forgotten: masked scores take part")
def softmax_b_no_mask(dp, x, axis=-1, mask=None):
    p = special.softmax(x, axis=axis)
    dx = p * (dp - (p * dp).sum(axis=axis, keepdims=True))
    return dx if mask is None else np.where(mask, dx, 0)


@wrong("softmax_backward", "two mistakes: plus for minus, and the sum over axis 0")
def softmax_b_two(dp, x):
    p = special.softmax(x, axis=-1)
    return p * (dp + (p * dp).sum(axis=0))


@wrong("softmax_backward", "the normalising sum is held constant: only the exponential is derived")
def softmax_b_constant_sum(dp, x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    s = e.sum(axis=-1, keepdims=True)
    de = dp / s
    return de * e


@wrong("softmax_backward", "the quotient rule divides by the sum instead of its square")
def softmax_b_quotient(dp, x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    s = e.sum(axis=-1, keepdims=True)
    de = dp / s - (dp * e).sum(axis=-1, keepdims=True) / s
    return de * e


@wrong("log_softmax_backward", "the sum of dy is missing: dy - p")
def log_softmax_b_no_sum(dy, x):
    return dy - special.softmax(x, axis=-1)


@wrong("log_softmax_backward", "the gradient of softmax in place of that of log_softmax")
def log_softmax_b_softmax(dy, x):
    p = special.softmax(x, axis=-1)
    return p * (dy - (p * dy).sum(axis=-1, keepdims=True))


@wrong("log_softmax_backward", "p times dy inside the sum: the weights are applied twice")
def log_softmax_b_weighted(dy, x):
    p = special.softmax(x, axis=-1)
    return dy - p * np.sum(p * dy, axis=-1, keepdims=True)


@wrong("log_softmax_backward", "the saved log-probabilities are used without exp")
def log_softmax_b_logs(dy, saved):
    y, axis = saved
    return dy - y * dy.sum(axis=axis, keepdims=True)


@wrong("log_softmax_backward", "the mean of dy for its sum")
def log_softmax_b_mean(dy, x, axis=-1):
    return dy - special.softmax(x, axis=axis) * dy.mean(axis=axis, keepdims=True)


@wrong("log_softmax_backward", "the Jacobian is not transposed")
def log_softmax_b_transposed(dy, x):
    p = special.softmax(x, axis=-1)
    dx = []
    for row, g in zip(p, dy):
        jacobian = np.eye(len(row)) - np.outer(np.ones(len(row)), row)
        dx.append(jacobian @ g)
    return np.stack(dx)


@wrong("softmax", "the maximum is not subtracted: exp overflows")
def softmax_overflow(x, axis=-1):
    return np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True)


@wrong("softmax", "normalised over axis 0 whatever axis was asked for")
def softmax_columns(x, axis=-1):
    e = np.exp(x - x.max(axis=0))
    return e / e.sum(axis=0)


@wrong("softmax", "normalised over the whole array")
def softmax_everything(x):
    e = np.exp(x - x.max())
    return e / e.sum()


@wrong("softmax", "masked weights are set to 0 after the normalisation: the rest do not sum to 1")
def softmax_masked_late(x, axis=-1, mask=None):
    p = special.softmax(x, axis=axis)
    return p if mask is None else p * mask


@wrong("softmax", "masked scores are set to 0, not to minus infinity")
def softmax_masked_zero(x, axis=-1, mask=None):
    return special.softmax(x if mask is None else x * mask, axis=axis)


@wrong("log_softmax", "the logarithm of the sum is divided by, not subtracted")
def log_softmax_divided(x, axis=-1):
    z = x - x.max(axis=axis, keepdims=True)
    return z / np.log(np.exp(z).sum(axis=axis, keepdims=True))


@wrong("log_softmax", "the maximum is subtracted from x but the sum is of the original exp(x)")
def log_softmax_mixed(x, axis=-1):
    z = x - x.max(axis=axis, keepdims=True)
    return z - np.log(np.exp(x).sum(axis=axis, keepdims=True))
