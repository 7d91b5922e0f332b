"""Forecasts of time series made by rule, with quantiles: a decoder of numbers."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from numformer.backend import one_blas_thread
from numformer.data import Batch, consecutive_rows, random_series
from numformer.functional import quantile_loss
from numformer.recipes.numbers.checksum import checksum
from numformer.recipes.preset import Claim, Preset, more
from numformer.recipes.task import Task
from numformer.seeds import CONTEXTS, branch

HELD_OUT, HELD_OUT_SEED = 1000, 10**9                 # series; training seeds are below it
KNOWN = 10_000                                        # series of the linear regression
VALIDATION_BATCH, SHOWN = 100, 3
SHORTEST_LAG = 3
RIDGE = 1.0


@dataclass(frozen=True)
class Series:
    """The held-out series; those of training are sampled in every step.

    Parameters
    ----------
    values : ndarray, shape (N, length)
    name : str
    """

    values: np.ndarray
    name: str = "series of two waves, a trend and noise"

    def __len__(self):
        """Numbers in all."""
        return self.values.size

    @property
    def sha256(self):
        """Checksum of all numbers."""
        return checksum(self.values)


class SeriesStream:
    """Batches of new series without end: a pure function of the seed and the step."""

    def __init__(self, config, batch_size, seed):
        self.config, self.batch_size, self.seed = config, batch_size, seed

    def batch(self, step):
        """The batch of a step."""
        c = self.config
        values, _ = random_series(self.batch_size, c.context_length + c.horizon,
                                  branch(self.seed, CONTEXTS, step))
        return forecast_batch(values, c)


class ForecastTask(Task):
    """Forecast series by quantiles; measured where a whole context has been read."""

    name = "forecasts"
    unit = "quantile loss"
    has_tokens = False

    def load(self, data):
        return super().load(data) if data is not None else _held_out()

    def tokenizer(self, dataset):
        """None: numbers are no tokens."""
        return None

    def options(self, tokenizer):
        return {}

    def stream(self, dataset, tokenizer, config, training):
        return SeriesStream(config, training.batch_size * training.accumulation, training.seed)

    def validation(self, dataset, tokenizer, config, blocks=None):
        values = held_out(config)[:blocks]
        return [forecast_batch(values[rows], config)
                for rows in consecutive_rows(len(values), VALIDATION_BATCH)]

    def sample(self, model, tokenizer, rng):
        """Held-out series: the last number read, and the forecast of the last step with the truth.
        """
        c = model.config
        values = held_out(c)[rng.choice(HELD_OUT, SHOWN, replace=False)]
        lines = []
        for series, forecast in zip(values, forecasts(model, values)):
            numbers = " ".join(f"{p}%: {x:.2f}" for p, x in zip(c.percentiles.split(","),
                                                               forecast[-1]))
            lines.append(f"{series[c.context_length - 1]:.2f} now, in {c.horizon} steps {numbers} "
                         f"({series[-1]:.2f})")
        return "\n".join(lines)

    def pictures(self, model, tokenizer):
        """The forecast of a held-out series, and what came."""
        from numformer.plots import forecast_fan

        values = held_out(model.config)[:1]
        return {"forecast.png": forecast_fan(values[0], forecasts(model, values)[0],
                                             model.config.quantiles)}

    def measure(self, model, tokenizer, dataset):
        """The quantile loss after a whole context: the model's, and that of simpler methods.

        Also how often what comes is between the lowest and the highest quantile.
        """
        c = model.config
        values = held_out(c)
        found, coming = forecasts(model, values), values[:, c.context_length:]
        inside = (found[..., 0] <= coming) & (coming <= found[..., -1])
        quantiles = np.array(c.quantiles)
        losses = {name: float(quantile_loss(each, coming, quantiles)[0]) for name, each in {
            "quantile_loss": found, **simple_forecasts(values, c)}.items()}
        return losses | {"coverage": float(inside.mean()),
                         "coverage_wanted": float(quantiles[-1] - quantiles[0])}


def held_out(config):
    """As many numbers of the held-out series as are read and forecast."""
    return _held_out(config.context_length + config.horizon).values


def forecasts(model, values):
    """The forecasts (N, K, Q) of what comes after whole contexts."""
    inputs = values[:, :model.config.context_length].astype(model.config.dtype)
    with one_blas_thread():
        return np.concatenate([model(inputs[rows])[:, -1].astype(float) for rows in
                               consecutive_rows(len(inputs), VALIDATION_BATCH)])


def forecast_batch(values, config):
    """The `Batch` of series (B, T + K): after each of T numbers, the next K are targets."""
    windows = np.lib.stride_tricks.sliding_window_view(values[:, 1:], config.horizon, axis=1)
    values = values.astype(config.dtype)
    return Batch(values=values[:, :config.context_length], targets=windows.astype(config.dtype))


def simple_forecasts(values, config):
    """Forecasts (N, K, Q) of methods that are not trained by gradients, by name.

    Each forecasts one number; quantiles of its errors are added. ``linear_regression_loss`` is the
    linear map of the context with the least squared error on 10,000 other series.
    ``best_lag_loss`` repeats a series after the lag at which it repeated itself best,
    ``last_value_loss`` its last number.
    """
    c, T, K = config, config.context_length, config.horizon
    known, _ = random_series(KNOWN, T + K, branch(HELD_OUT_SEED, CONTEXTS, 1))
    x, x_known = (np.pad(each[:, :T], ((0, 0), (0, 1)), constant_values=1)
                  for each in (values, known))
    W = np.linalg.solve(x_known.T @ x_known + RIDGE * np.eye(T + 1), x_known.T @ known[:, T:])
    errors = {"linear_regression_loss": known[:, T:] - x_known @ W,
              "last_value_loss": known[:, T:] - known[:, T - 1:T]}
    points = {"linear_regression_loss": x @ W,
              "last_value_loss": np.repeat(values[:, T - 1:T], K, axis=1)}
    found = {name: points[name][..., None] + np.quantile(error, c.quantiles, axis=0).T
             for name, error in errors.items()}
    return found | {"best_lag_loss": np.stack([repeated(series[:T], c) for series in values])}


def repeated(series, config):
    """The forecast (K, Q) of a series (T,) that goes on as after its best lag."""
    T = len(series)
    lags = range(min(SHORTEST_LAG, T - 1), T // 2 + 1)
    errors = {lag: series[lag:] - series[:T - lag] for lag in lags}
    lag = min(lags, key=lambda lag: np.square(errors[lag]).mean())
    again = series[T - lag + np.arange(config.horizon) % lag]
    return again[:, None] + np.quantile(errors[lag], config.quantiles)


@lru_cache(maxsize=4)
def _held_out(length=56):
    return Series(random_series(HELD_OUT, length, branch(HELD_OUT_SEED, CONTEXTS))[0])


PRESETS = {
    "forecast": Preset(
        dict(context_length=48, horizon=8, n_layers=2, n_heads=4, d_model=64, init_std=0.05),
        dict(steps=1500, batch_size=32, shards=2, optimizer="muon", muon_ratio=3.0,
             learning_rate=3e-3, min_learning_rate=0.0, warmup_steps=50, eval_every=500,
             save_every=500),
        ForecastTask(), "Forecaster",
        claims=(*(Claim("quantile_loss", beats=f"{name}_loss")
                  for name in ("linear_regression", "best_lag", "last_value")),
                more("coverage", 0.77))),
}
