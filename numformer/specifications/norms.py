"""LayerNorm and RMSNorm."""

import numpy as np

from numformer import functional as F
from numformer.specifications.levels import Level, sizes
from numformer.specifications.pair import Pair, seeded
from numformer.specifications.specification import specify


# ---- layer_norm ----------------------------------------------------------------------------------

def layer_norm(x, weight, bias, epsilon=1e-5):
    mu = x.mean(axis=-1, keepdims=True)
    var = ((x - mu) ** 2).mean(axis=-1, keepdims=True)
    x_hat = (x - mu) / np.sqrt(var + epsilon)
    return weight * x_hat + bias


def layer_norm_in_sums(x, weight, bias, epsilon=1e-5):
    N = x.shape[-1]
    mu = x.sum(axis=-1, keepdims=True) / N
    var = ((x - mu) ** 2).sum(axis=-1, keepdims=True) / N
    return weight * (x - mu) / np.sqrt(var + epsilon) + bias


def layer_norm_backward(dy, x, weight, bias, epsilon=1e-5):
    N = x.shape[-1]
    mu = x.mean(axis=-1, keepdims=True)
    var = ((x - mu) ** 2).mean(axis=-1, keepdims=True)
    std = np.sqrt(var + epsilon)
    x_hat = (x - mu) / std
    dx_hat = dy * weight
    dx = (N * dx_hat - dx_hat.sum(axis=-1, keepdims=True)
          - x_hat * (dx_hat * x_hat).sum(axis=-1, keepdims=True)) / (N * std)
    dweight = (dy * x_hat).sum(axis=(0, 1))
    dbias = dy.sum(axis=(0, 1))
    return dx, dweight, dbias


def layer_norm_backward_in_steps(dy, x, weight, bias, epsilon=1e-5):
    N = x.shape[-1]
    mu = x.mean(axis=-1, keepdims=True)
    centred = x - mu
    var = (centred ** 2).mean(axis=-1, keepdims=True)
    std = np.sqrt(var + epsilon)
    dx_hat = dy * weight
    dvar = (dx_hat * centred).sum(axis=-1, keepdims=True) * -0.5 * std ** -3
    dmu = -(dx_hat / std).sum(axis=-1, keepdims=True)
    dx = dx_hat / std + dvar * 2 * centred / N + dmu / N
    return dx, (dy * centred / std).sum(axis=(0, 1)), dy.sum(axis=(0, 1))


NAMES = {                                                # of variables, in the formulas
    "epsilon / scale / scale": "epsilon", "float(epsilon) / scale / scale": "epsilon",
    "rstd": "r", "scaled_rstd": "r", "rrms": "r", "scaled_rrms": "r", "dx_hat": "g",
    "scaled": "x", "centred": "(x - mean(x))", "mean": "mean(x)", "variance": "variance(x)",
    "var": "variance(x)", "std": "sqrt(variance(x) + epsilon)", "square": "mean(x ** 2)", "N": "C"}


def normed(*more, **options):
    def make(rng):
        B, T, C = sizes(rng, 3)
        C += 2
        arguments = {"x": 2 * rng.standard_normal((B, T, C)) + 0.7,
                     "weight": rng.standard_normal(C)}
        return {**arguments, **{name: rng.standard_normal(C) for name in more}}, options
    return make


def offset(*more):
    def make(rng):
        arguments, options = normed(*more)(rng)
        return {**arguments, "x": arguments["x"] + 1e7}, options
    return make


def of_equal_coordinates(*more):
    """One vector of equal coordinates, and one that is 0."""
    def make(rng):
        arguments, options = normed(*more)(rng)
        arguments["x"][0, 0], arguments["x"][-1, -1] = 1.7, 0
        return arguments, options
    return make


OFFSET = ("The mean is 10,000,000 here: E[x^2] - E[x]^2 loses the variance in rounding errors; "
          "subtract the mean first.")


EQUAL = "All coordinates of a vector are equal here, or 0: the variance is 0."


def of_norm(*more, outside=False):
    """The levels of a norm over the last axis; its arguments after the weight are `more`."""
    return {
        "plain": normed(*more), "epsilon=0.3": normed(*more, epsilon=0.3),
        "a mean far from 0": Level(offset(*more), OFFSET),
        "equal coordinates": Level(of_equal_coordinates(*more), EQUAL, required=not outside)}


def hardly_varying(x, *more):
    return 3 + 1e-5 * x, *more


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


def mean_of(x):
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
        return r * (dy - mean_of(dy) * centre - x_hat * kappa * mean_of(dy * x_hat)), *more
    return gradients


def norm_with_weight_last(centre, inside):
    """The weight multiplies at the end, as if the means were of dy."""
    def gradients(dy, x, weight, *bias, **options):
        g, x_hat, r, kappa, more = norm_parts(dy, x, weight, centre, inside, **options)
        dx_hat = dy - mean_of(dy) * centre - x_hat * kappa * mean_of(dy * x_hat)
        return r * weight * dx_hat, *more
    return gradients


def norm_with_sum_over(axes, centre, inside):
    """The gradients of weight and bias, not summed over all tokens."""
    def gradients(dy, x, weight, *bias, **options):
        g, x_hat, r, kappa, _ = norm_parts(dy, x, weight, centre, inside, **options)
        dx = r * (g - mean_of(g) * centre - x_hat * kappa * mean_of(g * x_hat))
        return dx, *(y.sum(axis=axes) if axes is not None else y
                     for y in [dy * x_hat] + [dy] * centre)
    return gradients


def norm_mistakes(centre, inside):
    both = [("the terms of the mean and of the variance are missing: they depend on x too",
             lambda g, x_hat, r, kappa: r * g),
            ("the term of the mean is missing: adding a constant to x changes nothing, so dx must "
             "sum to 0",
             lambda g, x_hat, r, kappa: r
             * (g - x_hat * kappa * mean_of(g * x_hat)))] if centre else []
    uncentred = "x - mean" if centre else "x"
    last = f"in the last term, {uncentred} is in place of x_hat {{}}"
    scaled = [
        (last.format("once: a factor r is missing"), lambda g, x_hat, r, kappa:
         r * (g - mean_of(g) * centre - x_hat / r * kappa * mean_of(g * x_hat))),
        (last.format("twice: a factor r^2 is missing"), lambda g, x_hat, r, kappa:
         r * (g - mean_of(g) * centre - x_hat / r * kappa * mean_of(g * x_hat / r))),
        ("the last term has a factor 1/2 too many", lambda g, x_hat, r, kappa:
         r * (g - mean_of(g) * centre - x_hat * kappa * mean_of(g * x_hat) / 2)),
        ("the last term is twice as large as it must be", lambda g, x_hat, r, kappa:
         r * (g - mean_of(g) * centre - 2 * x_hat * kappa * mean_of(g * x_hat))),
        ("the last term is added, but must be subtracted", lambda g, x_hat, r, kappa:
         r * (g - mean_of(g) * centre + x_hat * kappa * mean_of(g * x_hat)))]
    outside = [] if inside else [
        ("with epsilon outside the root, the term of the variance has another factor: "
         "(sigma + epsilon) / sigma",
         lambda g, x_hat, r, kappa: r * (g - mean_of(g) * centre - x_hat * mean_of(g * x_hat)))]
    return [
        *[(cause, norm_of(centre, inside, change)) for cause, change in [
            *both,
            ("the term of the variance is missing: it depends on x too" if centre else
             "the term of the mean square is missing: it depends on x too",
             lambda g, x_hat, r, kappa: r * (g - mean_of(g) * centre)),
            ("sums are used instead of means", lambda g, x_hat, r, kappa:
             r * (g - g.sum(-1, keepdims=True) * centre - x_hat * kappa
                  * (g * x_hat).sum(-1, keepdims=True))),
            ("the leading factor 1 / sigma is missing",
             lambda g, x_hat, r, kappa:
             g - mean_of(g) * centre - x_hat * kappa * mean_of(g * x_hat)),
            *scaled, *outside]],
        ("the weight is missing: dy must be multiplied by it first",
         norm_without_weight(centre, inside)),
        ("the weight multiplies at the end, but must multiply dy first: the mean of g * x_hat is "
         "of g = weight * dy", norm_with_weight_last(centre, inside)),
        ("the sum over the tokens is missing: all tokens share the parameters",
         norm_with_sum_over(None, centre, inside)),
        ("the gradient of the weight is summed over axis 0 alone: it must be summed over all axes "
         "but the last, as after a reshape to (N, C)", norm_with_sum_over(0, centre, inside)),
    ]


specify(
    F.layer_norm, ("x", "weight", "bias"), of_norm("bias"),
    cases=[
        Pair("layer norm", [(2, 3, 5), (5,), (5,)]),
        Pair("layer norm of a vector that hardly varies", [(2, 5), (5,), (5,)],
             options=dict(epsilon=1e-18), prepare=hardly_varying, condition=3e5)],
    mistakes=norm_mistakes(True, inside=True),
    last_axes={"x": 1}, names=NAMES,
    hints=(
        "Every vector has its own mean and variance: both run over the last axis alone.",
        "With keepdims=True, mean and variance have shape (..., 1). 1e-5{epsilon|, or epsilon,} "
        "is added to the variance, inside the square root.",
        "centred = x - mean, and variance is the mean of centred * centred (divide by C, not C - "
        "1). x_hat is centred divided by the root; then weight and bias."),
    backward_hints=(
        "Let g = weight * dy be the gradient of x_hat. x enters x_hat directly, through the mean "
        "and through r: one term of dx for each path.",
        "The path through the mean subtracts the mean of g over the last axis; that through the "
        "variance subtracts x_hat times the mean of g * x_hat. r is a factor of all.",
        "dx = r * (g - a - x_hat * b), a and b being these two means, (..., 1). dweight sums dy * "
        "x_hat, and dbias dy, over all axes but the last."))


# ---- layer_norm_outside --------------------------------------------------------------------------

def layer_norm_outside(x, weight, bias, epsilon=1e-5):
    mu = x.mean(axis=-1, keepdims=True)
    sigma = np.sqrt(((x - mu) ** 2).mean(axis=-1, keepdims=True))
    return weight * (x - mu) / (sigma + epsilon) + bias


def layer_norm_outside_backward(dy, x, weight, bias, epsilon=1e-5):
    mu = x.mean(axis=-1, keepdims=True)
    centred = x - mu
    sigma = np.sqrt((centred ** 2).mean(axis=-1, keepdims=True))
    s = sigma + epsilon
    dx_hat = dy * weight
    m = dx_hat.mean(axis=-1, keepdims=True)
    dx = (dx_hat - m) / s - centred * (dx_hat * centred).mean(axis=-1, keepdims=True) / (
        sigma * s ** 2)
    return dx, (dy * centred / s).sum(axis=(0, 1)), dy.sum(axis=(0, 1))


specify(
    F.layer_norm_outside, ("x", "weight", "bias"), of_norm("bias", outside=True),
    cases=[
        Pair("layer norm, outside", [(2, 3, 5), (5,), (5,)], options=dict(epsilon=0.2)),
        Pair("layer norm of a vector that hardly varies, outside", [(2, 5), (5,), (5,)],
             options=dict(epsilon=1e-9), prepare=hardly_varying, condition=3e5)],
    mistakes=norm_mistakes(True, inside=False),
    last_axes={"x": 1}, names=NAMES,
    hints=(
        "It is layer_norm with another denominator: epsilon is added to the standard deviation, "
        "after the root.",
        "Mean and variance run over the last axis, with keepdims=True. r = 1 / (sigma + epsilon), "
        "with sigma the square root of the variance.",
        "x_hat = (x - mean) divided by (variance ** 0.5 + epsilon); then times weight, plus bias."),
    backward_hints=(
        "The three paths of layer_norm: directly, through the mean, through sigma. Only the "
        "derivative of r = 1 / (sigma + epsilon) is new.",
        "dr / dsigma = -r^2 and dsigma / dx_j = (x_j - mu) / (C sigma). Compared with layer_norm, "
        "the last term gets kappa = (sigma + epsilon) / sigma.",
        "dx = r * (g - g.mean(axis=-1, keepdims=True) - kappa * x_hat * b), with g = weight * dy "
        "and b = (g * x_hat).mean(axis=-1, keepdims=True); kappa's term is 0 where sigma is 0."))


# ---- rms_norm ------------------------------------------------------------------------------------

def rms_norm(x, weight, epsilon=1e-5):
    rms = np.sqrt((x ** 2).mean(axis=-1, keepdims=True) + epsilon)
    return weight * x / rms


def rms_norm_backward(dy, x, weight, epsilon=1e-5):
    N = x.shape[-1]
    rms = np.sqrt((x ** 2).mean(axis=-1, keepdims=True) + epsilon)
    g = dy * weight
    dx = g / rms - x * (g * x).sum(axis=-1, keepdims=True) / (N * rms ** 3)
    dweight = (dy * x / rms).sum(axis=(0, 1))
    return dx, dweight


def rms_norm_mistakes(inside):
    return [
        *norm_mistakes(False, inside),
        ("a mean is subtracted, as in LayerNorm: RMSNorm has none",
         norm_of(False, inside, lambda g, x_hat, r, kappa:
                 r * (g - mean_of(g) - x_hat * kappa * mean_of(g * x_hat))))]


specify(
    F.rms_norm, ("x", "weight"), of_norm(),
    mistakes=rms_norm_mistakes(inside=True),
    last_axes={"x": 1}, names=NAMES,
    hints=(
        "RMSNorm is LayerNorm without the mean and without the bias: nothing is subtracted from "
        "x.",
        "The mean of x^2 runs over the last axis, with keepdims=True; 1e-5{epsilon|, or epsilon,} "
        "is added inside the square root.",
        "With square = (x * x).mean(axis=-1, keepdims=True), r is (square + epsilon) ** -0.5; y "
        "is weight times x times r."),
    backward_hints=(
        "Let g = weight * dy. x enters y directly and through r; no mean is subtracted, so "
        "LayerNorm's second term is missing here.",
        "dr / dx_j = -r^3 x_j / C. With x_hat = x r, this path subtracts x_hat times the mean of "
        "g * x_hat over the last axis; both terms have the factor r.",
        "dx = r * (g - x_hat * b), b being that mean with keepdims=True; dweight is the sum of dy "
        "* x_hat over all axes but the last."))


# ---- rms_norm_outside ----------------------------------------------------------------------------

def rms_norm_outside(x, weight, epsilon=1e-5):
    rms = np.sqrt((x ** 2).mean(axis=-1, keepdims=True))
    return weight * x / (rms + epsilon)


def rms_norm_outside_backward(dy, x, weight, epsilon=1e-5):
    N = x.shape[-1]
    rms = np.sqrt((x ** 2).mean(axis=-1, keepdims=True))
    s = rms + epsilon
    g = dy * weight
    dx = g / s - x * (g * x).sum(axis=-1, keepdims=True) / (N * rms * s ** 2)
    return dx, (dy * x / s).sum(axis=(0, 1))


def rms_norm_outside_backward_in_rows(dy, x, weight, epsilon=1e-5):
    rho = ((x * x).mean(axis=-1, keepdims=True)) ** 0.5
    r = 1 / (rho + epsilon)
    x_hat, g = x * r, dy * weight
    kappa = (rho + epsilon) / np.where(rho == 0, 1, rho)          # x_hat is 0 where rho is
    dx = r * (g - kappa * x_hat * (g * x_hat).mean(axis=-1, keepdims=True))
    return dx, (dy * x_hat).sum(axis=tuple(range(x.ndim - 1)))


specify(
    F.rms_norm_outside, ("x", "weight"), of_norm(outside=True),
    mistakes=rms_norm_mistakes(inside=False),
    last_axes={"x": 1}, names=NAMES,
    hints=(
        "It is rms_norm with epsilon added to the root mean square, after the root.",
        "rho = sqrt of the mean of x^2 over the last axis, (..., 1); r = 1 / (rho + epsilon).",
        "y is weight times x, divided by (square ** 0.5 + epsilon), where square is the mean of x "
        "* x with keepdims=True."),
    backward_hints=(
        "Two paths, as in rms_norm: directly, and through r = 1 / (rho + epsilon). Only the "
        "second changes.",
        "drho / dx_j = x_j / (C rho), so the second term gets the factor kappa = (rho + epsilon) "
        "/ rho. Where x is 0, that term is 0.",
        "dx = r * (g - kappa * x_hat * b), where g = weight * dy, x_hat = x * r, and b is the "
        "mean of g * x_hat; dweight sums dy * x_hat over all vectors."))


# ---- residual_layer_norm -------------------------------------------------------------------------

specify(
    F.residual_layer_norm, ("x", "branch", "weight", "bias"),
    cases=[
        Pair("residual layer norm", [(2, 3, 5), (2, 3, 5), (5,), (5,)]),
        Pair("residual layer norm, dropout",
             [(3, 5), (3, 5), (5,), (5,)], after=(0.1, 0.4), options=seeded)],
    hints=(
        "Two outputs: the sum of the stream and the branch, and its LayerNorm. Both are read "
        "later.",
        "Dropout is for the branch alone, before the sum: total = x + dropout(branch). The norm "
        "runs over the last axis of total.",
        "total and saved_sum come from residual_dropout(x, branch, rate, rng), normed from "
        "layer_norm(total, weight, bias, epsilon)."),
    backward_hints=(
        "total is read twice: as it is, and through the norm. Its gradient is the sum of both; "
        "then x and branch share it.",
        "First layer_norm_backward of dnormed gives the part through the norm, dweight and dbias. "
        "Add dtotal, if it is not None.",
        "dx is this sum; dbranch is the same with the dropout mask once more: "
        "residual_dropout_backward(dtotal, saved_sum) returns both."))


# ---- residual_rms_norm ---------------------------------------------------------------------------

specify(
    F.residual_rms_norm, ("x", "branch", "weight"),
    cases=[
        Pair("residual rms norm", [(3, 5), (3, 5), (5,)]),
        Pair("residual rms norm, dropout",
             [(2, 3, 5), (2, 3, 5), (5,)], after=(0.1, 0.4), options=seeded)],
    hints=(
        "Two outputs: the residual stream with the branch added, and the RMSNorm of that sum.",
        "Drop entries of the branch alone, then add x; normalize the sum over its last axis, "
        "without a mean and without a bias.",
        "total comes from residual_dropout(x, branch, rate, rng) and normed from rms_norm(total, "
        "weight, epsilon)."),
    backward_hints=(
        "The sum is read as it is and through the norm: dtotal and what rms_norm_backward returns "
        "are added before they go to x and branch.",
        "through_norm, dweight = rms_norm_backward(dnormed, saved_norm). dtotal may be None, when "
        "only the norm is read.",
        "residual_dropout_backward of dtotal + through_norm returns dx, which is that sum, and "
        "dbranch, which is masked like the forward."))
