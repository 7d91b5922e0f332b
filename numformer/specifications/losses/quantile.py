"""The quantile loss of forecasts."""

import numpy as np

from numformer import functional as F
from numformer.specifications.levels import Level, sizes
from numformer.specifications.specification import specify


def quantile_loss(forecasts, targets, quantiles):
    error = targets[..., None] - forecasts
    return np.maximum(quantiles * error, (quantiles - 1) * error).mean()


def quantile_loss_backward(dloss, forecasts, targets, quantiles):
    above = forecasts > targets[..., None]
    return dloss * (above - quantiles) / forecasts.size


def forecast(rng):
    B, T, Q = sizes(rng, 3)
    return {"forecasts": rng.standard_normal((B, T, Q)), "targets": rng.standard_normal((B, T)),
            "quantiles": rng.uniform(0.05, 0.95, Q)}, {}


def with_exact_forecast(rng):
    arguments, options = forecast(rng)
    arguments["forecasts"][0, 0, 0] = arguments["targets"][0, 0]
    return arguments, options


EXACT = "The gradient of an exact forecast is taken as -q, as just below the target."


def slopes(of_above=lambda q: 1 - q, of_below=lambda q: -q, count=lambda x: x.size):
    """A backward of the quantile loss: slopes above and below the target, and the count."""
    def gradient(dloss, forecasts, targets, quantiles):
        above = forecasts > targets[..., None]
        return dloss * np.where(above, of_above(quantiles), of_below(quantiles)) / count(forecasts)
    return gradient


specify(
    F.quantile_loss, ("forecasts",),
    {"plain": forecast,
     "an exact forecast": Level(with_exact_forecast, EXACT, required=False)},
    mistakes=[
        ("the sign is wrong: the error is target minus forecast, so a higher forecast makes it "
         "smaller", slopes(lambda q: q - 1, lambda q: q)),
        ("the quantiles are exchanged: a forecast that is too low costs q, one that is too high "
         "1 - q", slopes(lambda q: q, lambda q: q - 1)),
        ("this is the gradient of the absolute error, which finds the median alone",
         slopes(lambda q: 0.5 + 0 * q, lambda q: -0.5 + 0 * q)),
        ("forecasts that are too high have no gradient: they cost 1 - q",
         slopes(of_above=lambda q: 0 * q)),
        ("the mean is over all forecasts, n times Q, not over the n targets",
         slopes(count=lambda x: x.size // x.shape[-1])),
        ("the mean over forecasts is missing", slopes(count=lambda x: 1))],
    last_axes={"forecasts": 1, "targets": 0},
    hints=(
        "Each forecast has an error, target minus forecast. Where it is positive it counts q "
        "times, where it is negative 1 - q times, without its sign.",
        "error = targets[..., None] - forecasts has shape (..., Q), and the quantiles (Q,) "
        "broadcast over its last axis.",
        "The larger of q * error and (q - 1) * error is the cost of each forecast; the loss is the "
        "mean of all of them."),
    backward_hints=(
        "The cost is linear on both sides of the target: the gradient is a slope, whatever the "
        "size of the error.",
        "error falls as the forecast rises, so the slope is -q below the target and 1 - q above "
        "it; the mean is over all numbers of forecasts.",
        "With above = forecasts > targets[..., None], the slope is above - q; multiply by dloss, "
        "divide by forecasts.size."))
