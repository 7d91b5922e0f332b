"""The quantile loss: a forecast is several numbers, below which a known share of values should be.
"""

from numformer.checks import check_array


def quantile_loss(forecasts, targets, quantiles):
    r"""The mean cost of forecasts that are too low, weighted by q, or too high, by 1 - q.

    .. math:: L = \frac{1}{n Q} \sum_{t, k} \max\left( q_k\, e_{tk},\; (q_k - 1)\, e_{tk} \right),
              \qquad e_{tk} = y_t - \hat y_{tk}

    It is least where a share :math:`q_k` of all y is below :math:`\hat y_k`: the cost of a higher
    forecast, 1 - q for each y below it, is then that of a lower one, q for each y above. With
    q = 1/2 it is half the absolute error, and the forecast is the median.

    Parameters
    ----------
    forecasts : ndarray, shape (..., Q)
        :math:`\hat y`, one for each quantile.
    targets : ndarray, shape (...)
        y. They are constants.
    quantiles : ndarray, shape (Q,)
        q, between 0 and 1. They are constants.

    Returns
    -------
    loss : scalar of the dtype of `forecasts`, in the unit of y
    saved : tuple
        For `quantile_loss_backward`.

    Raises
    ------
    ValueError, TypeError
        If shapes differ, nothing is forecast, or a quantile is not between 0 and 1.

    References
    ----------
    Koenker and Bassett (1978), "Regression Quantiles", section 3; Lim et al. (2021), "Temporal
    Fusion Transformers", eqs. 24 and 25.

    Examples
    --------
    >>> import numpy as np
    >>> forecasts, quantiles = np.array([[1.0, 5.0]]), np.array([0.25, 0.75])
    >>> loss, _ = quantile_loss(forecasts, np.array([3.0]), quantiles)
    >>> float(loss)                                  # (0.25 * 2 + (1 - 0.75) * 2) / 2
    0.5
    """
    owner = "quantile_loss"
    Q = check_array(owner, "forecasts", forecasts, "(..., Q)")["Q"]
    check_array(owner, "targets", targets, "(...)")
    check_array(owner, "quantiles", quantiles, "(Q,)", Q=Q)
    if targets.shape != forecasts.shape[:-1] or not forecasts.size:
        raise ValueError(f"{owner}: forecasts of shape {forecasts.shape} need targets of shape "
                         f"{forecasts.shape[:-1]}, at least one, but they have {targets.shape}.")
    if not ((quantiles > 0) & (quantiles < 1)).all():
        raise ValueError(f"{owner}: quantiles must be between 0 and 1, but are "
                         f"{quantiles.tolist()}.")
    y, q = (each.astype(forecasts.real.dtype) for each in (targets, quantiles))
    error = y[..., None] - forecasts                                  # (..., Q)
    slope = q - (error.real < 0)
    loss = (slope * error).mean()

    saved = (slope,)
    return loss, saved


def quantile_loss_backward(dloss, saved):
    r"""The gradient of `quantile_loss`: how a forecast moves, whatever the size of its error.

    .. math:: \bar{\hat y}_{tk} = \frac{\bar L}{n Q} \left( [\hat y_{tk} > y_t] - q_k \right)

    Where a forecast is exact it is -q, that of a forecast just below.

    Returns
    -------
    dforecasts : ndarray, shape (..., Q)
    """
    slope, = saved

    # loss = (slope * (y - forecasts)).mean()
    return slope * -float(dloss / slope.size)
