"""Forecasts of a time series: what was read, what may come, and what came."""

import numpy as np

from numformer.checks import check_array
from numformer.plots.axes import colours, legend_below, new_axes, styled


@styled
def forecast_fan(values, forecasts, quantiles, ax=None, title="Forecast with its quantiles"):
    """A series and the quantiles of its last numbers, as a fan that begins where reading ends.

    Parameters
    ----------
    values : ndarray, shape (N,)
        The numbers that were read, and the K that came.
    forecasts : ndarray, shape (K, Q)
        Quantiles of the last K numbers, from low to high.
    quantiles : sequence of float
        Q of them.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError, TypeError
        If shapes do not match, or nothing was read.
    """
    owner = "forecast_fan"
    sizes = check_array(owner, "forecasts", forecasts, "(K, Q)", Q=len(quantiles))
    n = check_array(owner, "values", values, "(N,)")["N"]
    T = n - sizes["K"]
    if T < 1 or not forecasts.size:
        raise ValueError(f"{owner}: {n} values with forecasts of shape {forecasts.shape} must be "
                         "more values than forecasts, of which there is at least one.")
    ax = new_axes() if ax is None else ax
    blue, accent = colours(ax)[:2]
    steps, ahead = np.arange(n) + 1 - T, np.arange(T, n)              # 0: the last that was read
    fan = np.concatenate([np.full((1, sizes["Q"]), values[T - 1]), forecasts])
    half = sizes["Q"] // 2
    for k in range(half):
        ax.fill_between(steps[T - 1:], fan[:, k], fan[:, -1 - k], color=blue, alpha=0.25,
                        linewidth=0, label=f"{quantiles[k]:.0%} to {quantiles[-1 - k]:.0%}")
    if sizes["Q"] % 2:
        ax.plot(steps[T - 1:], fan[:, half], "--", color=blue, label=f"{quantiles[half]:.0%}")
    ax.plot(steps[:T], values[:T], "-", color=blue, label="read")
    ax.plot(steps[ahead], values[ahead], "o", color=accent, markersize=4, label="what came")
    ax.set(xlabel="steps from the last number read", ylabel="value", title=title)
    ax.grid(alpha=0.3)
    legend_below(ax, 4)
    return ax
