"""Hidden units of the feed-forwards: their activations, and how many are dead."""

import numpy as np

from numformer.plots.axes import colours, new_axes, styles


def activation_histograms(activations, dead=None, ax=None, title="Activations of hidden units"):
    """A histogram of the activations of each feed-forward, on a logarithmic axis.

    Parameters
    ----------
    activations : dict of str to ndarray
        From `hidden_activations`.
    dead : dict of str to float, optional
        The fraction of dead units, by the same names, for the legend; see `dead_units`.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If there is nothing to draw.
    """
    if not activations:
        raise ValueError("activation_histograms: activations is empty; there is nothing to draw.")
    ax = new_axes((7, 4.2)) if ax is None else ax
    ends = [float(each(x.min() if each is min else x.max() for x in activations.values()))
            for each in (min, max)]
    edges = np.linspace(*ends,
                        81) if ends[1] > ends[0] else np.linspace(ends[0] - 1, ends[0] + 1, 81)
    for (name, x), style in zip(activations.items(), styles(ax, len(activations))):
        counts, _ = np.histogram(x, edges)
        label = name if name not in (dead or {}) else f"{name}: {100 * dead[name]:.1f}% dead"
        ax.plot((edges[1:] + edges[:-1]) / 2, counts / x.size, label=label, markevery=10,
                markersize=4, **style)
    ax.set(xlabel="activation", ylabel="fraction", yscale="log", title=title)
    ax.grid(alpha=0.3)
    ax.legend(fontsize=8)
    return ax


def dead_unit_bars(dead, ax=None, title="Dead hidden units"):
    """The fraction of dead units in each feed-forward.

    Parameters
    ----------
    dead : dict of str to float
        Fraction by name; see `dead_units`.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If there is nothing to draw.
    """
    if not dead:
        raise ValueError("dead_unit_bars: dead is empty; there is nothing to draw.")
    ax = new_axes((6.4, 1.2 + 0.3 * len(dead))) if ax is None else ax
    bars = ax.barh(range(len(dead)), [100 * part for part in dead.values()], color=colours(ax)[2])
    ax.bar_label(bars, [f"{100 * part:.1f}%" for part in dead.values()], padding=3, fontsize=8)
    ax.set_yticks(range(len(dead)), list(dead), fontsize=8)
    ax.invert_yaxis()
    ax.set(xlabel="% of units", xlim=(0, 100), title=title)
    return ax
