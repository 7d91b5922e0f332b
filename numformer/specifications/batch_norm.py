"""BatchNorm."""

import numpy as np

from numformer import functional as F
from numformer.specifications.levels import Level, also, sizes
from numformer.specifications.norms import NAMES as OF_NORMS
from numformer.specifications.norms import OFFSET
from numformer.specifications.pair import Pair
from numformer.specifications.specification import specify


# ---- batch_norm ----------------------------------------------------------------------------------

def batch_norm(x, weight, bias, epsilon=1e-5):
    mu = x.mean(axis=(0, 1))
    var = ((x - mu) ** 2).mean(axis=(0, 1))
    return weight * (x - mu) / np.sqrt(var + epsilon) + bias


def batch_norm_backward(dy, x, weight, bias, epsilon=1e-5):
    N = x.shape[0] * x.shape[1]
    mu = x.mean(axis=(0, 1))
    std = np.sqrt(((x - mu) ** 2).mean(axis=(0, 1)) + epsilon)
    x_hat = (x - mu) / std
    dx_hat = dy * weight
    dweight = (dy * x_hat).sum(axis=(0, 1))
    dbias = dy.sum(axis=(0, 1))
    dx = (N * dx_hat - dx_hat.sum(axis=(0, 1)) - x_hat * (dx_hat * x_hat).sum(axis=(0, 1))) / (
        N * std)
    return dx, dweight, dbias


def batch_norm_backward_in_means(dy, x, weight, bias, epsilon=1e-5):
    N = x.shape[0] * x.shape[1]
    mu = x.mean(axis=(0, 1), keepdims=True)
    std = np.sqrt(((x - mu) ** 2).mean(axis=(0, 1), keepdims=True) + epsilon)
    x_hat = (x - mu) / std
    g = dy * weight
    dx = (g - g.sum(axis=(0, 1)) / N - x_hat * (g * x_hat).sum(axis=(0, 1)) / N) / std
    return dx, (dy * x_hat).sum(axis=(0, 1)), dy.sum(axis=(0, 1))


def batch_norm_backward_in_parts(dy, x, weight, bias, epsilon=1e-5):
    mu = x.mean(axis=(0, 1), keepdims=True)
    std = np.sqrt(((x - mu) ** 2).mean(axis=(0, 1), keepdims=True) + epsilon)
    x_hat = (x - mu) / std
    g = dy * weight
    m = g.mean(axis=(0, 1), keepdims=True)
    dx = (g - m - x_hat * (g * x_hat).mean(axis=(0, 1), keepdims=True)) / std
    return dx, (dy * x_hat).sum(axis=(0, 1)), dy.sum(axis=(0, 1))


NAMES = {**OF_NORMS, "statistics.mean": "mean(x)", "vectors": "x", "dvectors": "dy", "N": "n",
         "real": "x"}                                    # of variables, in the formulas
OF_INFERENCE = {**NAMES, "mean": "mean", "variance": "variance", "var": "variance",
                "centred": "(x - mean)", "std": "sqrt(variance + epsilon)"}      # they are given


def batch_norm_backward_in_vectors(dy, x, weight, bias, epsilon=1e-5):
    C = x.shape[-1]
    vectors, dvectors = x.reshape(-1, C), dy.reshape(-1, C)       # (N, C): all axes but the last
    centred = vectors - vectors.mean(axis=0)
    r = ((centred * centred).mean(axis=0) + epsilon) ** -0.5
    x_hat, g = centred * r, dvectors * weight
    dx = r * (g - g.mean(axis=0) - x_hat * (g * x_hat).mean(axis=0))
    return dx.reshape(x.shape), (dvectors * x_hat).sum(axis=0), dvectors.sum(axis=0)


def normed(rng, more=0):
    B, T, C = sizes(rng, 3)
    T = max(T + more, 2)                             # the statistics need two vectors
    return {"x": 2 * rng.standard_normal((B, T, C)) + 0.7,
            "weight": rng.standard_normal(C), "bias": rng.standard_normal(C)}, {}


def some_statistics(arguments, rng):
    C = len(arguments["weight"])
    return rng.standard_normal(C), 0.5 + rng.random(C)


def offset(rng):
    arguments, options = normed(rng)
    return {**arguments, "x": arguments["x"] + 1e7}, options


def wrong_batch_norm(change):
    """A backward of BatchNorm with dx = `change(g, x_hat, r, n)`."""
    def gradients(dy, x, weight, bias, epsilon=1e-5):
        C = x.shape[-1]
        vectors, dvectors = x.reshape(-1, C), dy.reshape(-1, C)
        r = (vectors.var(axis=0) + epsilon) ** -0.5
        x_hat = (vectors - vectors.mean(axis=0)) * r
        dx = change(weight * dvectors, x_hat, r, len(vectors)).reshape(x.shape)
        return dx, (dvectors * x_hat).sum(axis=0), dvectors.sum(axis=0)
    return gradients


def terms(g, x_hat, n):
    """The terms of the mean and of the variance, each a sum over the vectors divided by n."""
    return g.sum(axis=0) / n, x_hat * ((g * x_hat).sum(axis=0) / n)


def right(g, x_hat, r, n):
    return r * (g - sum(terms(g, x_hat, n)))


def as_layer_norm(dy, x, weight, bias):
    return F.layer_norm_backward(dy, F.layer_norm(x, weight, bias)[1])


def norm_without_weight(dy, x, weight, bias):
    dx, dweight, dbias = wrong_batch_norm(right)(dy, x, weight, bias)
    return dx / weight, dweight, dbias


def norm_of_each_sequence(dy, x, weight, bias):
    parts = [F.batch_norm_backward(dy[b], F.batch_norm(x[b], weight, bias)[1])
             for b in range(len(x))]
    dx, dweight, dbias = zip(*parts)
    return np.stack(dx), sum(dweight), sum(dbias)


def over_axis_0(of_parameters):
    """Means over axis 0 of x (B, T, C) alone; sums for weight and bias, if they are right."""
    def gradients(dy, x, weight, bias, epsilon=1e-5):
        r = (x.var(axis=0) + epsilon) ** -0.5
        x_hat = (x - x.mean(axis=0)) * r
        dx = right(weight * dy, x_hat, r, len(x))
        axes = 0 if of_parameters else tuple(range(x.ndim - 1))
        return dx, (dy * x_hat).sum(axis=axes), dy.sum(axis=axes)
    return gradients


def parameters_over_axis_0(dy, x, weight, bias, epsilon=1e-5):
    dx, *_ = F.batch_norm_backward(dy, F.batch_norm(x, weight, bias, epsilon)[1])
    axes = tuple(range(x.ndim - 1))
    x_hat = (x - x.mean(axis=axes)) * (x.var(axis=axes) + epsilon) ** -0.5
    return dx, (dy * x_hat).sum(axis=0), dy.sum(axis=0)


def normalized_over_axis_0(x, weight, bias, epsilon=1e-5):
    return weight * (x - x.mean(axis=0)) * (x.var(axis=0) + epsilon) ** -0.5 + bias


AXIS_0 = ("the means are over axis 0 alone, but must be over all axes but the last: for x (B, T, "
          "C) over (0, 1), or over axis 0 after x.reshape(-1, C)")


NORM_MISTAKES = [
    ("the terms of the mean and of the variance are missing: they depend on x too",
     wrong_batch_norm(lambda g, x_hat, r, n: r * g)),
    ("the term of the mean is missing: adding a constant to a coordinate changes nothing, so dx "
     "must "
     "sum to 0 over the batch",
     wrong_batch_norm(lambda g, x_hat, r, n: r * (g - terms(g, x_hat, n)[1]))),
    ("the term of the variance is missing: it depends on x too",
     wrong_batch_norm(lambda g, x_hat, r, n: r * (g - terms(g, x_hat, n)[0]))),
    ("sums are used instead of means",
     wrong_batch_norm(lambda g, x_hat, r, n: r * (g - sum(terms(g, x_hat, 1))))),
    ("the leading factor 1 / sigma is missing",
     wrong_batch_norm(lambda g, x_hat, r, n: right(g, x_hat, 1.0, n))),
    ("in the last term, x - mean is in place of x_hat: the factor r is missing",
     wrong_batch_norm(lambda g, x_hat, r, n: r * (g - terms(g, x_hat, n)[0]
                                                  - terms(g, x_hat, n)[1] / r))),
    ("the last term is added, but must be subtracted",
     wrong_batch_norm(lambda g, x_hat, r, n: r * (g - terms(g, x_hat, n)[0]
                                                  + terms(g, x_hat, n)[1]))),
    ("the last term has a factor 1/2 too many",
     wrong_batch_norm(lambda g, x_hat, r, n: r * (g - terms(g, x_hat, n)[0]
                                                  - terms(g, x_hat, n)[1] / 2))),
    ("the weight is missing: dy must be multiplied by it first", norm_without_weight),
]


specify(
    F.batch_norm, ("x", "weight", "bias"),
    {"plain": normed, "epsilon=0.3": also(normed, epsilon=0.3),
     "a mean far from 0": Level(offset, OFFSET)},
    cases=[
        Pair("batch norm", [(2, 3, 5), (5,), (5,)]),
        Pair("batch norm of a coordinate that hardly varies",
             [(6, 2), (2,), (2,)],
             options=dict(epsilon=1e-18), prepare=lambda x, *rest: (3 + 1e-5 * x, *rest),
             condition=3e5)],
    mistakes=[
        *NORM_MISTAKES,
        ("this is the gradient of LayerNorm: the means of BatchNorm are over the batch, for each "
         "coordinate",
         as_layer_norm),
        ("every sequence is normalized separately: the means are over all vectors of the batch",
         norm_of_each_sequence),
        *((AXIS_0, over_axis_0(of_parameters)) for of_parameters in (True, False)),
        ("dweight and dbias are summed over axis 0 alone: they must be summed over all axes but "
         "the last", parameters_over_axis_0)],
    forward_mistakes=[(AXIS_0, normalized_over_axis_0)],
    last_axes={"x": 2}, names=NAMES,                            # two vectors at least
    hints=(
        "LayerNorm along the other axis: every coordinate has a mean and a variance, over all "
        "vectors of the batch.",
        "Reshape x (..., C) to (N, C) by x.reshape(-1, C); then mean and variance are over axis "
        "0, (C,). Divide by N, not N - 1, and add epsilon inside the root.",
        "centred = vectors - mean; x_hat = centred * (variance + epsilon) ** -0.5; weight and "
        "bias (C,) follow; reshape back to x.shape."),
    backward_hints=(
        "The three paths of LayerNorm, but mean and variance connect the vectors of the batch: "
        "the means in dx run over the N vectors.",
        "Reshape x and dy (..., C) to (N, C) by reshape(-1, C). With g = weight * dy: subtract the "
        "mean of g over axis 0, and x_hat times the mean of g * x_hat over axis 0. r is a factor "
        "of all.",
        "dx = rstd * (g - g.mean(axis=0) - x_hat * b), b = (g * x_hat).mean(axis=0), then "
        "reshaped; dweight and dbias are sums over axis 0."))


# ---- masked_batch_norm ---------------------------------------------------------------------------

def masked_batch_norm(x, weight, bias, mask, epsilon=1e-5):
    real = x.reshape(-1, x.shape[-1])[mask.reshape(-1)]
    mu = real.mean(axis=0)
    var = ((real - mu) ** 2).mean(axis=0)
    return (weight * (x - mu) / np.sqrt(var + epsilon) + bias) * mask[:, :, None]


def masked_batch_norm_in_sums(x, weight, bias, mask, epsilon=1e-5):
    m = mask[:, :, None]
    n = m.sum()
    mu = (x * m).sum(axis=(0, 1)) / n
    var = ((x - mu) ** 2 * m).sum(axis=(0, 1)) / n
    return (weight * (x - mu) / np.sqrt(var + epsilon) + bias) * m


def masked_batch_norm_backward(dy, x, weight, bias, mask, epsilon=1e-5):
    real = x.reshape(-1, x.shape[-1])[mask.reshape(-1)]
    mu = real.mean(axis=0)
    std = np.sqrt(((real - mu) ** 2).mean(axis=0) + epsilon)
    m = mask[:, :, None]
    n = m.sum()
    x_hat = (x - mu) / std
    dy = dy * m
    g = dy * weight
    dx = (g - g.sum(axis=(0, 1)) / n - x_hat * (g * x_hat).sum(axis=(0, 1)) / n) / std * m
    return dx, (dy * x_hat).sum(axis=(0, 1)), dy.sum(axis=(0, 1))


def normed_with_padding(rng):
    arguments, _ = normed(rng, more=2)
    B, T, _ = arguments["x"].shape
    mask = real(rng, B, T)
    mask[:, :2], mask[0, 2] = True, False            # the statistics need two vectors
    return {**arguments, "mask": mask}, {}


def real(rng, B, T):
    """A mask of real positions, at least one in each row; some row has padding."""
    mask = rng.random((B, T)) < 0.6
    mask[:, 0], mask[0, 1:2] = True, False
    return mask


def with_padding(gradients):
    """A backward of masked BatchNorm, from one of BatchNorm: only real vectors take part."""
    def masked(dy, x, weight, bias, mask):
        dx = np.zeros_like(x)
        dx[mask], dweight, dbias = gradients(dy[mask], x[mask], weight, bias)
        return dx, dweight, dbias
    return masked


def norm_with_padding(dy, x, weight, bias, mask):
    return F.batch_norm_backward(dy, F.batch_norm(x, weight, bias)[1])


def norm_with_padding_in_the_variance(x, weight, bias, mask, epsilon=1e-5):
    m, n = mask[..., None], mask.sum()
    axes = tuple(range(x.ndim - 1))
    x = np.where(m, x, 0)
    mean = x.sum(axis=axes) / n
    variance = ((x - mean) ** 2).sum(axis=axes) / n
    return np.where(m, (x - mean) / np.sqrt(variance + epsilon) * weight + bias, 0)


specify(
    F.masked_batch_norm, ("x", "weight", "bias"),
    {"plain": normed_with_padding, "epsilon=0.3": also(normed_with_padding, epsilon=0.3),
     "statistics": also(normed_with_padding, statistics=some_statistics)},
    mistakes=[
        *((cause, with_padding(gradients)) for cause, gradients in NORM_MISTAKES),
        ("padding is counted in the means", norm_with_padding)],
    forward_mistakes=[
        ("padding is counted in the variance: x is set to 0 there before the mean is subtracted, "
         "so each padded vector adds the square of the mean", norm_with_padding_in_the_variance)],
    last_axes={"x": 2, "mask": 1}, names=NAMES,                 # two vectors at least
    hints=(
        "Padding must not count: take the real vectors out, normalize them as one batch, and put "
        "them back.",
        "x[mask] is (N, C), the vectors where mask is True. The statistics are theirs, unless "
        "statistics are given, which replace them.",
        "Zeros of the shape of x, whose entries [mask] are set to the batch_norm of x[mask]; "
        "batch_norm_inference with given statistics."),
    backward_hints=(
        "Padding enters nothing, so its gradient is 0. For the real vectors it is that of "
        "batch_norm, on dy[mask].",
        "The means in dx run over the N real vectors alone: N is mask.sum(), not B T. With given "
        "statistics, no path goes through them.",
        "dvectors, dweight and dbias come from the norm's backward of dy[mask]; put dvectors into "
        "zeros at [mask]."))


# ---- batch_norm_inference ------------------------------------------------------------------------

def batch_norm_inference(x, weight, bias, statistics, epsilon=1e-5):
    mean, var = statistics
    return weight * (x - mean) / np.sqrt(var + epsilon) + bias


def batch_norm_inference_backward(dy, x, weight, bias, statistics, epsilon=1e-5):
    mean, var = statistics
    std = np.sqrt(var + epsilon)
    x_hat = (x - mean) / std
    return dy * weight / std, (dy * x_hat).sum(axis=(0, 1)), dy.sum(axis=(0, 1))


def normed_with_statistics(rng):
    arguments, _ = normed(rng)
    return {**arguments, "statistics": some_statistics(arguments, rng)}, {}


def inference(change):
    """A backward of BatchNorm at inference with dx = `change(g, x_hat, r, n)`."""
    def gradients(dy, x, weight, bias, statistics, epsilon=1e-5):
        C = x.shape[-1]
        (mean, variance), dvectors = statistics, dy.reshape(-1, C)
        r = (variance + epsilon) ** -0.5
        x_hat = (x.reshape(-1, C) - mean) * r
        dx = change(weight * dvectors, x_hat, r, len(dvectors)).reshape(x.shape)
        return dx, (dvectors * x_hat).sum(axis=0), dvectors.sum(axis=0)
    return gradients


def inference_without_weight(dy, x, weight, bias, statistics, epsilon=1e-5):
    right = inference(lambda g, x_hat, r, n: r * g)
    dx, dweight, dbias = right(dy, x, weight, bias, statistics, epsilon)
    return dx / weight, dweight, dbias


specify(
    F.batch_norm_inference, ("x", "weight", "bias"),
    {"plain": normed_with_statistics, "epsilon=0.3": also(normed_with_statistics, epsilon=0.3)},
    mistakes=[
        ("given statistics are constants: the terms of the mean and of the variance must be left "
         "out", inference(right)),
        ("the leading factor 1 / sigma is missing", inference(lambda g, x_hat, r, n: g)),
        ("the weight is missing: dy must be multiplied by it first", inference_without_weight)],
    last_axes={"x": 1}, names=OF_INFERENCE,
    hints=(
        "With given statistics nothing of the batch is measured: each vector is mapped on its "
        "own, an affine map of every coordinate.",
        "statistics holds the mean and the variance, each (C,). epsilon is added to the variance, "
        "inside the root.",
        "x_hat = (x - mean) times rstd, with rstd = (variance + epsilon) ** -0.5; then weight and "
        "bias."),
    backward_hints=(
        "Mean and variance are constants, so x has one path: no term is subtracted, unlike in "
        "batch_norm.",
        "dx is dy times two (C,) vectors. dweight and dbias still sum over all vectors of the "
        "batch.",
        "dx = dy * weight * rstd; dweight is the sum of dy * x_hat, and dbias that of dy, over "
        "every axis but the last."))
