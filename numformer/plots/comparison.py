"""Language models side by side: what they reach with the same tokens, and how far back they feel."""

import math

from numformer.plots.axes import new_axes, styles


def losses_by_tokens(curves, ax=None, title="Validation loss"):
    """Validation losses against the tokens that were learned from; bits a token on the right.

    Parameters
    ----------
    curves : dict of str to list of (int, float)
        For each model, (tokens, loss in nats). A model with a single point, such as one that counts, is a level.
    ax : matplotlib Axes, optional
        Where to draw; a new figure unless given.
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
        raise ValueError("losses_by_tokens: there are no losses to draw.")
    ax = new_axes((7, 4.2)) if ax is None else ax
    for (name, curve), style in zip(curves.items(), styles(ax, len(curves))):
        if len(curve) == 1:
            ax.axhline(curve[0][1], color=style["color"], linestyle=style["linestyle"], linewidth=1.0, label=f"{name}: {curve[0][1]:.3f}")
        elif curve:
            ax.plot(*zip(*curve), markersize=5, label=f"{name}: {curve[-1][1]:.3f}", **style)
    ax.set(xlabel="tokens learned from", ylabel="loss, nats a token", title=title)
    bits = ax.secondary_yaxis("right", functions=(lambda nats: nats / math.log(2), lambda bits: bits * math.log(2)))
    bits.set_ylabel("bits a token")
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def gradients_by_distance(profiles, ax=None, title="How far back a prediction feels"):
    """The gradient of a loss by earlier tokens, as a part of that by the last, on a logarithmic axis: a straight line vanishes.

    Parameters
    ----------
    profiles : dict of str to sequence of float
        For each model, what `gradient_by_distance` returned. A gradient of exactly 0 is left out.
    ax : matplotlib Axes, optional
        Where to draw; a new figure unless given.
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
        raise ValueError("gradients_by_distance: there are no gradients to draw, or none at distance 0.")
    ax = new_axes((7, 4.2)) if ax is None else ax
    for (name, profile), style in zip(profiles.items(), styles(ax, len(profiles))):
        points = [(k, g / profile[0]) for k, g in enumerate(profile) if g > 0]
        ax.plot(*zip(*points), markersize=4, markevery=max(1, len(points) // 8), label=name, **style)
    ax.set(yscale="log", xlabel="distance k, tokens", ylabel="gradient, of that at distance 0", title=title)
    ax.grid(alpha=0.3)
    ax.legend()
    return ax
