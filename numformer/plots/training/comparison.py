"""Several language models compared: validation loss by tokens, and gradient norm by distance."""

import math

from numformer.plots.axes import legend_below, new_axes, styled, styles
from numformer.plots.text.labels import label
from numformer.plots.tokens import LONG_NAME, plain


@styled
def losses_by_tokens(curves, ax=None, title="Validation loss"):
    """Validation losses against training tokens; bits per token on the right.

    Parameters
    ----------
    curves : dict of str to list of (int, float)
        For each model, (tokens, loss in nats). A single point, as of an n-gram model, is drawn as a
        horizontal line.
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
    if not any(curves.values()):
        raise ValueError("losses_by_tokens: curves hold no losses; there is nothing to draw.")
    from matplotlib.ticker import EngFormatter, MaxNLocator

    ax = new_axes() if ax is None else ax
    for (name, curve), style in zip(curves.items(), styles(ax, len(curves))):
        if len(curve) == 1:
            ax.axhline(curve[0][1], color=style["color"], linestyle=style["linestyle"],
                       linewidth=1.0, label=f"{plain(name)}: {curve[0][1]:.3f}")
        elif curve:
            ax.plot(*zip(*curve), markersize=5, label=f"{plain(name)}: {curve[-1][1]:.3f}", **style)
    ax.set(xlabel="training tokens", ylabel="loss, nats per token", title=title)
    ax.xaxis.set_major_formatter(EngFormatter(sep=" "))
    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 2.5, 5, 10]))
    if all(len(curve) < 2 for curve in curves.values()):              # horizontal lines alone
        ax.set_xlim(0, max(max(tokens for curve in curves.values() for tokens, _ in curve), 1))
    bits = ax.secondary_yaxis("right", functions=(lambda nats: nats / math.log(2),
                                                  lambda bits: bits * math.log(2)))
    bits.set_ylabel("bits per token")
    ax.grid(alpha=0.3)
    legend_of_runs(ax)
    return ax


def legend_of_runs(ax):
    """The legend of curves with names of users: below the picture where one of them is long."""
    names = ax.get_legend_handles_labels()[1]
    if names and max(label(name).width for name in names) > 2 * LONG_NAME:
        legend_below(ax, 1)
    else:
        ax.legend()


@styled
def gradient_reach_curves(profiles, ax=None, title="Gradient norm by distance"):
    """Gradient norm with respect to earlier tokens, relative to that of the last token.

    The axis is logarithmic: a gradient that vanishes exponentially is a straight line.

    Parameters
    ----------
    profiles : dict of str to sequence of float
        For each model, from `gradient_reach`. Gradients of exactly 0 are left out.
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
    if not profiles or not all(len(profile) and profile[0] > 0 for profile in profiles.values()):
        raise ValueError("gradient_reach_curves: profiles are empty, or 0 at distance 0; there is "
                         "nothing to draw.")
    ax = new_axes() if ax is None else ax
    for (name, profile), style in zip(profiles.items(), styles(ax, len(profiles))):
        points = [(k, g / profile[0]) for k, g in enumerate(profile) if g > 0]
        ax.plot(*zip(*points), markersize=4, markevery=max(1, len(points) // 8), label=plain(name),
                **style)
    ax.set(yscale="log", xlabel="distance k, tokens",
           ylabel="gradient norm, relative to distance 0", title=title)
    ax.grid(alpha=0.3)
    legend_of_runs(ax)
    return ax
