"""Attention weights of several kinds side by side, for one text."""

from numformer.plots.attention.maps import attention_map
from numformer.plots.axes import entitle, panels, styled


@styled
def attention_maps(weights, tokens=None, mask=None, ax=None, title="Attention weights"):
    """A map for each kind of attention, next to one another.

    Parameters
    ----------
    weights : dict of str to ndarray, shape (T, S)
        Weights of each kind; rows sum to 1.
    tokens, mask
        As in `attention_map`, for all of them.
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str

    Returns
    -------
    list of Axes

    Raises
    ------
    ValueError
        If there is nothing to draw, or a map does not fit the labels.
    """
    if not weights:
        raise ValueError("attention_maps: weights are empty; give one map or more.")
    axes = panels(ax, 1, len(weights), (8, 1.3 + 7 / len(weights)))[0]
    for panel, (name, its_weights) in zip(axes, weights.items()):
        attention_map(its_weights, tokens, mask, panel, name)
    entitle(ax, axes[0], title)
    return list(axes)
