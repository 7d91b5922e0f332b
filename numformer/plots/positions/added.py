"""Position vectors, their similarity by distance, and position biases on the scores."""

import numpy as np

from numformer.checks import check_array, check_whole
from numformer.plots.axes import (
    WIDTH, draw_map, entitle, new_axes, panels, signed_colours, styled, styles)
from numformer.plots.tokens import plain


@styled
def position_vectors(vectors, ax=None, title="Positions"):
    """Position vectors, a row for each: sinusoidal or learned. Blue below zero, orange above.

    Parameters
    ----------
    vectors : ndarray, shape (T, C)
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError, TypeError
        If vectors are not a matrix of floats.
    """
    check_array("position_vectors", "vectors", vectors, "(T, C)")
    ax = new_axes((WIDTH, 5)) if ax is None else ax
    draw_map(ax, vectors, "value", signed=True)
    ax.set(xlabel="coordinate", ylabel="position", title=title)
    return ax


@styled
def similarity_by_distance(tables, ax=None, title="Dot product of two position vectors"):
    r"""The dot product of two position vectors at distance k: mean, with a band from min to max.

    .. math:: s_k = \langle P_t \cdot P_{t + k} \rangle_t \,/\, \langle P_t \cdot P_t \rangle_t

    For sinusoidal positions the dot product depends on the distance alone, so the band has no
    width.

    Parameters
    ----------
    tables : dict of str to ndarray of shape (T, C)
        Position vectors, by name.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError, TypeError
        If there are no tables, or one is not a matrix of floats, or all zero.
    """
    if not tables:
        raise ValueError("similarity_by_distance: tables is empty; there is nothing to draw.")
    ax = new_axes() if ax is None else ax
    for (name, table), style in zip(tables.items(), styles(ax, len(tables))):
        T = check_array("similarity_by_distance", f"the table {name}", table, "(T, C)")["T"]
        products = table @ table.T                                    # (T, T)
        if not np.trace(products):
            raise ValueError(f"similarity_by_distance: the table {name} is all zero.")
        found = [np.diagonal(products, k) * (T / np.trace(products)) for k in range(T)]
        ax.plot(range(T), [each.mean() for each in found], label=plain(name),
                markevery=max(1, T // 8), markersize=4, **style)
        ax.fill_between(range(T), [each.min() for each in found], [each.max() for each in found],
                        color=style["color"], alpha=0.2)
    ax.set(xlabel="distance k, tokens", ylabel="dot product, relative to distance 0", title=title)
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


@styled
def position_biases(bias, ax=None, title="Position bias on the scores"):
    """A map for each head of the bias added to its scores: ALiBi's slopes, or T5's learned buckets.

    Parameters
    ----------
    bias : ndarray, shape (H, T, S)
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str

    Returns
    -------
    Figure

    Raises
    ------
    ValueError, TypeError
        If the bias is not an array of floats with three axes, or has no heads.
    """
    H = check_array("position_biases", "bias", bias, "(H, T, S)")["H"]
    check_whole("position_biases", "H", H)
    from matplotlib.ticker import MaxNLocator

    columns = min(H, 4)
    axes = panels(ax, -(-H // columns), columns, (WIDTH, 1.85 * -(-H // columns) + 0.9))
    top = float(np.abs(bias).max()) or 1.0
    for h, panel in enumerate(axes.flat):
        if h >= H:
            panel.remove()
            continue
        image = panel.imshow(bias[h], cmap=signed_colours(panel), vmin=-top, vmax=top,
                             interpolation="nearest")
        panel.set_title(f"head {h + 1}")
        column = h % columns
        panel.set(xlabel="key" if h + columns >= H else "", ylabel="query" if not column else "")
        for axis, shown in ((panel.xaxis, h + columns >= H), (panel.yaxis, not column)):
            axis.set_major_locator(MaxNLocator(3, integer=True))
            axis.set_tick_params(**{"labelbottom" if axis is panel.xaxis else "labelleft": shown})
    figure = axes[0, 0].figure
    bar = figure.colorbar(image, ax=[panel for panel in axes.flat if panel.figure is not None],
                          label="bias on the score", shrink=0.8)
    if float(bias.max()) <= 0:                        # of ALiBi: the half with the other sign is
        bar.ax.set_ylim(-top, 0)                      # not used
    entitle(ax, axes[0, 0], title)
    return figure
