"""Losses against the operations that training took."""

import numpy as np

from numformer.plots.axes import faint, new_axes, styled, styles
from numformer.plots.tokens import plain


@styled
def losses_by_operations(curves, target=None, ax=None, title="Loss by operations"):
    """Losses against training operations, and where each curve reaches a target.

    Parameters
    ----------
    curves : dict of str to list of (float, float)
        For each model, (operations, loss in nats).
    target : float, optional
        A loss that all reach: a horizontal line, with a mark where each curve crosses it.
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
    if not curves or not all(curves.values()):
        raise ValueError("losses_by_operations: curves hold no losses; there is nothing to draw.")
    ax = new_axes() if ax is None else ax
    if target is not None:
        ax.axhline(target, color=faint(ax), linewidth=1, label=f"a loss of {target:.2f}")
    for (name, curve), style in zip(curves.items(), styles(ax, len(curves))):
        operations, losses = map(np.array, zip(*curve))
        ax.plot(operations, losses, label=plain(name), markersize=4, **style)
        if target is not None:
            at = np.exp(np.interp(-target, -losses, np.log(operations)))
            ax.plot(at, target, marker=style["marker"], color=style["color"], markersize=11,
                    fillstyle="none")
    ax.set(xscale="log", xlabel="training operations, FLOPs", ylabel="loss, nats per token",
           title=title)
    ax.grid(alpha=0.3)
    ax.legend()
    return ax
