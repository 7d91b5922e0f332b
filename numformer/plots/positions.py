"""Pictures of positions that are added: their vectors, their biases, and how likeness falls with distance."""

import numpy as np

from numformer.checks import check_array, check_whole
from numformer.plots.axes import draw_map, entitle, new_axes, panels, signed_colours, styles


def position_vectors(vectors, ax=None, title="Positions"):
    """The vectors of positions, a row for each: sinusoids, or what a model learned. Blue below zero, gold above.

    Parameters
    ----------
    vectors : ndarray, shape (T, C)
    ax : matplotlib Axes, optional
        Where to draw; a new figure unless given.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError, TypeError
        If vectors are no matrix of floats.
    """
    check_array("position_vectors", "vectors", vectors, "(T, C)")
    ax = new_axes((7, 4.6)) if ax is None else ax
    draw_map(ax, vectors, "coordinate's value", signed=True)
    ax.set(xlabel="coordinate", ylabel="position", title=title)
    return ax


def similarity_by_distance(tables, ax=None, title="Dot product of two positions"):
    r"""How alike two positions are that lie k apart: the mean of their dot products, in a band from the least to the largest.

    .. math:: s_k = \langle P_t \cdot P_{t + k} \rangle_t \,/\, \langle P_t \cdot P_t \rangle_t

    The dot product of two sinusoids of the paper is a function of their distance alone, so they have no band.

    Parameters
    ----------
    tables : dict of str to ndarray of shape (T, C)
        Vectors of positions, by name.
    ax : matplotlib Axes, optional
        Where to draw; a new figure unless given.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError, TypeError
        If there are no tables, or one is no matrix of floats, or all zero.
    """
    if not tables:
        raise ValueError("similarity_by_distance: there are no tables to draw.")
    ax = new_axes((7, 4.2)) if ax is None else ax
    for (name, table), style in zip(tables.items(), styles(ax, len(tables))):
        T = check_array("similarity_by_distance", f"the table {name}", table, "(T, C)")["T"]
        products = table @ table.T                                    # (T, T)
        if not np.trace(products):
            raise ValueError(f"similarity_by_distance: the table {name} is all zero.")
        found = [np.diagonal(products, k) * (T / np.trace(products)) for k in range(T)]
        ax.plot(range(T), [each.mean() for each in found], label=name, markevery=max(1, T // 8), markersize=4, **style)
        ax.fill_between(range(T), [each.min() for each in found], [each.max() for each in found], color=style["color"], alpha=0.2)
    ax.set(xlabel="distance k, tokens", ylabel="dot product, of that with itself", title=title)
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def position_biases(bias, ax=None, title="What positions add to the scores"):
    """A map for each head of what is added to the score of every query and key: ALiBi's slopes, or T5's learned buckets.

    Parameters
    ----------
    bias : ndarray, shape (H, T, S)
    ax : matplotlib Axes, optional
        In whose place to draw; a new figure unless given.
    title : str

    Returns
    -------
    Figure

    Raises
    ------
    ValueError, TypeError
        If the bias is no array of floats of three axes, or has no heads.
    """
    H = check_array("position_biases", "bias", bias, "(H, T, S)")["H"]
    check_whole("position_biases", "H", H)
    columns = min(H, 4)
    axes = panels(ax, -(-H // columns), columns, (2.4 * columns + 1, 2.3 * -(-H // columns) + 0.6))
    top = float(np.abs(bias).max()) or 1.0
    for h, panel in enumerate(axes.flat):
        if h >= H:
            panel.remove()
            continue
        image = panel.imshow(bias[h], cmap=signed_colours(), vmin=-top, vmax=top, interpolation="nearest")
        panel.set_title(f"head {h + 1}: {bias[h].min():.2g} .. {bias[h].max():.2g}", fontsize=9)
        panel.set(xlabel="key", ylabel="query")
    figure = axes[0, 0].figure
    figure.colorbar(image, ax=[panel for panel in axes.flat if panel.figure is not None], label="added to the score", shrink=0.8)
    entitle(ax, axes[0, 0], title)
    return figure
