"""Language models side by side: what they reach with the same tokens, and how far back they feel."""

import math

from numformer.plots.axes import new_axes

# Told apart by line and marker as well as by colour; the colours go from dark to light.
STYLES = [(colour, line, marker) for (colour, marker), line in zip(
    (("#00204c", "o"), ("#b8860b", "s"), ("#5c6f9c", "^"), ("#7c7b78", "D"), ("#1f7a6d", "v"), ("#c2703d", "P"), ("#9a9a4b", "X"),
     ("#a8b4d0", "*")), ("-", "--", "-.", ":", "-", "--", "-.", ":"))]


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
    for (name, curve), (colour, line, marker) in zip(curves.items(), _styles(len(curves))):
        if len(curve) == 1:
            ax.axhline(curve[0][1], color=colour, linestyle=line, linewidth=1.0, label=f"{name}: {curve[0][1]:.3f}")
        elif curve:
            ax.plot(*zip(*curve), color=colour, linestyle=line, marker=marker, markersize=5, label=f"{name}: {curve[-1][1]:.3f}")
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
    if not profiles:
        raise ValueError("gradients_by_distance: there are no gradients to draw.")
    ax = new_axes((7, 4.2)) if ax is None else ax
    for (name, profile), (colour, line, marker) in zip(profiles.items(), _styles(len(profiles))):
        points = [(k, g / profile[0]) for k, g in enumerate(profile) if g > 0]
        ax.plot(*zip(*points), color=colour, linestyle=line, marker=marker, markersize=4, markevery=max(1, len(points) // 8), label=name)
    ax.set(yscale="log", xlabel="distance k, tokens", ylabel="gradient, of that at distance 0", title=title)
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def _styles(count):
    return (STYLES * (count // len(STYLES) + 1))[:count]
