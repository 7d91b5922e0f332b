"""Hidden units of the feed-forwards: their activations, and how many are dead."""

import re

import numpy as np

from numformer.analysis.capture import dead_units, hidden_activations
from numformer.backend import one_blas_thread
from numformer.plots.axes import WIDTH, colours, new_axes, styled, styles
from numformer.plots.pictures import picture_of_run
from numformer.plots.tokens import name_ticks, plain


@styled
def activation_histograms(activations, dead=None, ax=None, title="Activations of hidden units"):
    """A histogram of the activations of each feed-forward, on a logarithmic axis.

    Parameters
    ----------
    activations : dict of str to ndarray
        From `hidden_activations`.
    dead : dict of str to float, optional
        The fraction of dead units, by the same names; those above 0 are in the legend. See
        `dead_units`.
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
    ax = new_axes() if ax is None else ax
    ends = [float(each(x.min() if each is min else x.max() for x in activations.values()))
            for each in (min, max)]
    edges = np.linspace(*ends,
                        81) if ends[1] > ends[0] else np.linspace(ends[0] - 1, ends[0] + 1, 81)
    for (name, x), style in zip(activations.items(), styles(ax, len(activations))):
        counts, _ = np.histogram(x, edges)
        gone = (dead or {}).get(name, 0.0)
        label = plain(_place(name)) + (f": {100 * gone:.1f}% dead" if gone else "")
        fractions = np.where(counts, counts / x.size, np.nan)         # 0 has no logarithm
        ax.plot((edges[1:] + edges[:-1]) / 2, fractions, label=label, markevery=10,
                markersize=4, **style)
    ax.set(xlabel="activation", ylabel="fraction", yscale="log", title=title)
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


@styled
def dead_unit_bars(dead, ax=None, title="Dead hidden units"):
    """The fraction of dead units in each feed-forward that has some.

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
        If there are no dead units.
    """
    dead, n = {name: part for name, part in dead.items() if part}, len(dead)
    if not dead:
        raise ValueError(f"dead_unit_bars: none of the {n} feed-forwards has dead units; there is "
                         "nothing to draw.")
    ax = new_axes((WIDTH, 1.3 + 0.36 * len(dead))) if ax is None else ax
    bars = ax.barh(range(len(dead)), [100 * part for part in dead.values()], color=colours(ax)[0])
    ax.bar_label(bars, [f"{100 * part:.1f}%" for part in dead.values()], padding=3)
    name_ticks(ax.yaxis, range(len(dead)), map(_place, dead))
    ax.invert_yaxis()
    ax.set(xlabel="% of units", xlim=(0, min(108, 130 * max(dead.values()))), title=title)
    return ax


def _place(name):
    """The name of a feed-forward as a label.

    Examples
    --------
    >>> _place("encoder.blocks.0.feedforward"), _place("blocks.11.feedforward"), _place("a")
    ('encoder block 1', 'block 12', 'a')
    """
    found = re.fullmatch(r"(.*?)\.?blocks\.(\d+)\.feedforward", name)
    return f"{found[1]} block {int(found[2]) + 1}".strip() if found else name


@picture_of_run("activations", "text")
def _of_units(run):
    """Histograms of the activations of hidden units, with the fraction of dead ones."""
    found = _activations(run)
    return activation_histograms(found, {name: dead_units(x) for name, x in found.items()})


@picture_of_run("dead", "text")
def _dead(run):
    """Fraction of dead hidden units in each feed-forward."""
    return dead_unit_bars({name: dead_units(x) for name, x in _activations(run).items()})


def _activations(run):
    with one_blas_thread():
        return hidden_activations(run.model, *run.reading().inputs)
