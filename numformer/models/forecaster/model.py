"""Forecasts of time series: numbers in, and quantiles of the numbers that follow out."""

from dataclasses import dataclass

import numpy as np

from numformer.checks import check_array
from numformer.config import like, option, whole_numbers
from numformer.description import MASKED, VECTORS, Column, costs_per_token
from numformer.functional import CAUSAL, quantile_loss, quantile_loss_backward
from numformer.layers import Dropout, Linear
from numformer.models.decoder.config import DecoderConfig
from numformer.models.transformer import TransformerConfig, final_norm_of, positions_of, stack_of
from numformer.parameter import Layer


@dataclass(frozen=True, kw_only=True)
class ForecasterConfig(TransformerConfig):
    """The config of a `Forecaster`.

    Examples
    --------
    >>> config = ForecasterConfig(context_length=48, horizon=8, n_layers=1, n_heads=2, d_model=16)
    >>> config.quantiles
    [0.1, 0.5, 0.9]
    """

    context_length: int = option("Most numbers of a series that the model reads.")
    horizon: int = option(
        "K, how many steps ahead are forecast: a target for each at every position.", most=2**11)
    percentiles: str = option(
        "What is forecast of each number: the values below which these percentages of all outcomes "
        "are, ascending, such as '10,50,90'; in Python also a tuple.", "10,50,90", numbers=True)
    positions: str = like(DecoderConfig, "positions")

    def __post_init__(self):
        super().__post_init__()
        if self.quantiles != sorted(set(self.quantiles)) or self.quantiles[-1] >= 1:
            raise ValueError(f"ForecasterConfig: percentiles={self.percentiles!r} must ascend from "
                             "1 to 99.")

    @property
    def quantiles(self):
        """The percentiles as parts of 1: Q of them."""
        return [p / 100 for p in whole_numbers("", "", self.percentiles)[1]]


class Forecaster(Layer):
    r"""Forecast the next K numbers of a series after each of its numbers, with their quantiles.

    .. math::

        x^0_t = y_t w + b + \mathrm{positions}_t, \qquad x^{\ell+1} = \mathrm{block}_\ell(x^\ell),
        \qquad \hat y_t = \mathrm{norm}(x^L_t)\, W + c

    This is a decoder whose input and output are numbers: a linear map in place of the embedding,
    another in place of the head. :math:`\hat y_t` has K Q numbers: Q quantiles of each of
    :math:`y_{t+1}, \dots, y_{t+K}`, all at once and from the numbers up to t alone. The loss is the
    mean `quantile_loss` of all of them.

    Parameters
    ----------
    config : ForecasterConfig
    rng : numpy.random.Generator or None
        Draws the initial weights. With None, parameters have only shapes, for counting.

    References
    ----------
    Lim et al. (2021), "Temporal Fusion Transformers for Interpretable Multi-horizon Time Series
    Forecasting", sections 3 and 4.6: quantiles of all steps at once. Their model has recurrent
    layers and gates, too; this one is a decoder alone.

    Examples
    --------
    >>> config = ForecasterConfig(context_length=48, horizon=8, n_layers=1, n_heads=2, d_model=16)
    >>> model = Forecaster(config, np.random.default_rng(0))
    >>> values, targets = np.zeros((5, 48), np.float32), np.zeros((5, 48, 8), np.float32)
    >>> model(values).shape                                           # (B, T, K, Q)
    (5, 48, 8, 3)
    >>> loss, saved = model.loss((values, targets))
    >>> model.loss_backward(saved)
    """

    config_class = ForecasterConfig

    def __init__(self, config, rng):
        c, dtype = config, np.dtype(config.dtype)
        self.config = config
        self.input = Linear(1, c.d_model, rng, dtype=dtype)
        self.positions = positions_of(c, rng)
        self.dropout = Dropout(c.dropout)
        self.blocks = stack_of(c, rng, bidirectional=False)
        self.norm = final_norm_of(c)
        self.head = Linear(c.d_model, c.horizon * len(c.quantiles), rng, std=c.init_std,
                           dtype=dtype)

    def forward(self, values, rng=None):
        """Forecasts after each number of a series.

        Parameters
        ----------
        values : ndarray, shape (B, T)
        rng : numpy.random.Generator, optional
            For dropout.

        Returns
        -------
        forecasts : ndarray, shape (B, T, K, Q)
        saved : tuple

        Raises
        ------
        ValueError, TypeError
            If values are no floats of that shape, or more than there are positions for.
        """
        c = self.config
        sizes = check_array("Forecaster", "values", values, "(B, T)", np.dtype(c.dtype))
        if not values.size:
            raise ValueError(f"Forecaster: values are empty, shape {values.shape}; give at least "
                             "one number.")
        x, saved_input = self.input.forward(values[..., None])        # (B, T, C)
        x, saved_positions = self.positions.forward(x)
        x, saved_dropout = self.dropout.forward(x, rng)
        x, saved_blocks = self.blocks.forward(x, pattern=CAUSAL, rng=rng)
        x, saved_norm = self.norm.forward(x)
        y, saved_head = self.head.forward(x)                          # (B, T, K Q)
        forecasts = y.reshape(sizes["B"], sizes["T"], c.horizon, len(c.quantiles))

        saved = (saved_input, saved_positions, saved_dropout, saved_blocks, saved_norm, saved_head)
        return forecasts, saved

    def backward(self, dforecasts, saved):
        """The gradient of the values, (B, T)."""
        saved_input, saved_positions, saved_dropout, saved_blocks, saved_norm, saved_head = saved

        # forecasts = head(norm(blocks(x)))
        dy = dforecasts.reshape(*dforecasts.shape[:2], -1)            # (B, T, K Q)
        dx = self.norm.backward(self.head.backward(dy, saved_head), saved_norm)
        dx = self.blocks.backward(dx, saved_blocks)

        # x = dropout(positions(input(values[..., None])))
        dx = self.dropout.backward(dx, saved_dropout)
        dx = self.positions.backward(dx, saved_positions)
        return self.input.backward(dx, saved_input)[..., 0]

    def loss(self, batch, rng=None):
        """The mean `quantile_loss` of a batch (values, targets).

        Parameters
        ----------
        batch : (values, targets)
            Shapes (B, T) and (B, T, K): the K numbers after each.
        rng : numpy.random.Generator, optional
            For dropout.

        Returns
        -------
        loss : scalar, in the unit of the values
        saved : tuple
        """
        values, targets = batch
        forecasts, saved_forward = self.forward(values, rng)
        quantiles = np.array(self.config.quantiles)
        loss, saved_loss = quantile_loss(forecasts, targets, quantiles)

        saved = (saved_forward, saved_loss)
        return loss, saved

    def loss_backward(self, saved, dloss=1.0):
        """Add the gradient of dloss * loss to every parameter."""
        saved_forward, saved_loss = saved

        # loss = quantile_loss(forward(values), targets, quantiles)
        self.backward(quantile_loss_backward(dloss, saved_loss), saved_forward)

    def costs(self):
        return costs_per_token(self)

    def describe_model(self, reader):
        c = self.config
        reader.sizes_of(c)
        reader.at_most("T", c.context_length)
        return reader.architecture(Column("numbers (B, T)", (
            *reader.boxes(VECTORS, self.input, self.positions),
            *reader.stacks(self.blocks, MASKED), *reader.boxes(VECTORS, self.norm),
            *reader.boxes(("B", "T", c.horizon * len(c.quantiles)), self.head,
                          name="Linear head"))))
