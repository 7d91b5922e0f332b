"""Losses of runs by size and data, with the law that was fitted to them."""

import numpy as np

from numformer.plots.axes import new_axes, styles


def scaling_law_curves(runs, law, held_out=0, ax=None, title="Loss by tokens and parameters"):
    """Losses against tokens, one curve of the law and one row of points for each model size.

    Parameters
    ----------
    runs : list of (int, int, float)
        Parameters, tokens and loss of each run.
    law : ScalingLaw
    held_out : int
        So many runs at the end of the list were not fitted; they have hollow, larger markers.
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
    ax = new_axes((8, 4.6)) if ax is None else ax
    sizes = list(dict.fromkeys(N for N, *_ in runs))
    tokens = [D for _, D, _ in runs]
    D = np.geomspace(min(tokens), max(tokens), 60)
    fitted, others = runs[:len(runs) - held_out], runs[len(runs) - held_out:]
    for N, style in zip(sizes, styles(ax, len(sizes))):
        its = {key: style[key] for key in ("color", "marker")}
        ax.plot(D, law.loss(N, D), color=style["color"], linestyle=style["linestyle"], linewidth=1)
        ax.plot([d for n, d, _ in fitted if n == N], [loss for n, _, loss in fitted if n == N],
                linestyle="none", label=f"{N:,} parameters", **its)
        points = [(d, loss) for n, d, loss in others if n == N]
        if points:
            ax.plot(*zip(*points), linestyle="none", markersize=11, markerfacecolor="none",
                    label="not fitted: predicted by its curve", **its)
    ax.plot([], [], color="0.5", linewidth=1, label=(
        f"{law.limit:.2f} + {law.size:.3g} / N$^{{{law.alpha:.2f}}}$"
        f" + {law.data:.3g} / D$^{{{law.beta:.2f}}}$"))
    ax.set(xscale="log", yscale="log", xlabel="training tokens D", ylabel="loss, nats per token",
           title=title)
    ticks = [loss for loss in (0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6)
             if min(run[2] for run in runs) * 0.9 < loss < max(run[2] for run in runs) * 1.1]
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.set_xticks(sorted(set(tokens)), [f"{d:,}" for d in sorted(set(tokens))])
    ax.grid(alpha=0.3)
    ax.legend(fontsize=8)
    return ax
