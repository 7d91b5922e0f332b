"""Time and bytes of a training step against the number of ranks."""

from numformer.plots.axes import entitle, in_slides, legend_below, panels, styled, styles
from numformer.plots.tokens import plain


@styled
def rank_scaling(seconds, bytes_, measured=None, ax=None, title="A training step on N ranks"):
    """Two panels: the time of a step, and what a rank sends in it.

    Parameters
    ----------
    seconds : dict of str to dict of int to float
        For each model of the communication: seconds by number of ranks. Drawn as lines.
    bytes_ : dict of int to float
        Of the formula, by number of ranks.
    measured : dict of int to (float, float), optional
        Seconds and bytes that were measured. Drawn as large points.
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If there is nothing to draw.
    """
    if not seconds or not bytes_:
        raise ValueError("rank_scaling: seconds or bytes_ is empty; give a model for each.")
    axes = panels(ax, *((1, 2) if in_slides() else (2, 1)), (8, 8)).ravel()
    measured = measured or {}
    for (name, times), style in zip(seconds.items(), styles(axes[0], len(seconds))):
        axes[0].plot(list(times), [1e3 * value for value in times.values()], label=plain(name),
                     **{**style, "marker": None})
    axes[1].plot(list(bytes_), [value / 1e6 for value in bytes_.values()], label="formula",
                 **{**styles(axes[1], 1)[0], "marker": None})
    for panel, k, unit in ((axes[0], 0, 1e3), (axes[1], 1, 1e-6)):
        if measured:
            panel.plot(list(measured), [unit * pair[k] for pair in measured.values()], "o",
                       color=panel.xaxis.label.get_color(), markersize=9, label="measured")
    ticks = sorted({n for times in seconds.values() for n in times})
    for panel, label in zip(axes, ("ms a step", "MB that a rank sends a step")):
        panel.set_xscale("log", base=2)
        panel.set_xticks(ticks, [str(n) for n in ticks])
        panel.minorticks_off()
        panel.set(xlabel="ranks N", ylabel=label)
        panel.grid(alpha=0.3)
    times = [1e3 * value for each in seconds.values() for value in each.values()]
    shown = [m * 10.0 ** k for k in range(-6, 7) for m in (1, 2, 5)
             if min(times) / 1.5 < m * 10.0 ** k < max(times) * 1.5]
    axes[0].set_yscale("log")
    axes[0].set_yticks(shown, [f"{value:g}" for value in shown])
    axes[0].minorticks_off()
    legend_below(axes[0], 1) if in_slides() else axes[0].legend()
    axes[1].legend()
    entitle(ax, axes[0], title)
    return axes[0].figure
