"""Losses of runs by size and data, with the law that was fitted to them."""

import numpy as np

from numformer.plots.axes import WIDTH, in_slides, legend_below, new_axes, styled, styles


@styled
def scaling_law_curves(runs, law, ax=None, title="Loss by tokens and parameters"):
    """Losses against tokens, one curve of the law and one row of points for each model size.

    Parameters
    ----------
    runs : list of (int, int, float, bool)
        Parameters, tokens and loss of each run, and whether it was held out of the fit: then its
        marker is hollow.
    law : ScalingLaw
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
    if not runs:
        raise ValueError("scaling_law_curves: runs is empty; there is nothing to draw.")
    ax = new_axes((WIDTH, 6)) if ax is None else ax
    sizes, tokens = (list(dict.fromkeys(values)) for values in list(zip(*runs))[:2])
    losses = [loss for *_, loss, _ in runs]
    D = np.geomspace(min(tokens), max(tokens), 60)
    for N, style in zip(sizes, styles(ax, len(sizes))):
        ax.plot(D, law.loss(N, D), color=style["color"], linestyle=style["linestyle"], linewidth=1)
        for n, d, loss, held_out in runs:
            if n == N:
                ax.plot(d, loss, marker=style["marker"], color=style["color"], markersize=8,
                        linestyle="none", fillstyle="none" if held_out else "full")
        ax.plot([], [], label=f"{N:,} parameters", **style)
    ax.plot([], [], marker="o", color="0.5", markersize=8, fillstyle="none", linestyle="none",
            label="hollow: not fitted")
    ax.plot([], [], color="0.5", linewidth=1, label=(
        f"{law.limit:.2f} + {law.size:.3g} / N$^{{{law.alpha:.2f}}}$"
        f" + {law.data:.3g} / D$^{{{law.beta:.2f}}}$"))
    ax.set(xscale="log", yscale="log", xlabel="training tokens D", ylabel="loss, nats per token",
           title=title)
    ticks = [loss for loss in (0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6)
             if min(losses) * 0.9 < loss < max(losses) * 1.1]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.set_xticks(sorted(tokens), [f"{d:,}" for d in sorted(tokens)])
    ax.grid(alpha=0.3)
    legend_below(ax, 3 if in_slides() else 2, 0.46)
    return ax
