"""Loss by position, within the trained length and beyond it."""

import numpy as np

from numformer.plots.axes import faint, new_axes, styled, styles
from numformer.plots.tokens import plain


@styled
def losses_by_position(curves, trained, ax=None, title="Loss by position"):
    """The mean loss at each position, one curve for each model; grey ends the trained length.

    Neighbouring positions are averaged in eighths of the trained length, because single ones are
    noisy.

    Parameters
    ----------
    curves : dict of str to ndarray, shape (T,)
        For each model, the loss in nats at each position.
    trained : int
        Tokens in a training block.
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
    if not curves or not all(len(curve) for curve in curves.values()):
        raise ValueError("losses_by_position: curves hold no losses; there is nothing to draw.")
    ax = new_axes() if ax is None else ax
    width = max(1, trained // 8)
    for (name, curve), style in zip(curves.items(), styles(ax, len(curves))):
        starts = np.arange(0, len(curve), width)
        means = [float(np.mean(curve[start:start + width])) for start in starts]
        ax.plot(starts + (width - 1) / 2 + 1, means, label=plain(name), markersize=4,
                markevery=4, **style)
    ax.axvline(trained + 0.5, color=faint(ax), linewidth=4, zorder=0, label="trained length")
    ax.set(xlabel="position in the text, tokens", ylabel="loss, nats per token", title=title)
    ax.grid(alpha=0.3)
    ax.legend(loc="upper left", ncols=2)
    return ax
