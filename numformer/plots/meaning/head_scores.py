"""Scores of heads: a map of heads by patterns."""

from numformer.plots.axes import draw_map, new_axes, styled
from numformer.plots.tokens import name_ticks


@styled
def head_scores(scores, heads, patterns, title, label="score", ax=None):
    """Draw how strongly every head has every pattern.

    Parameters
    ----------
    scores : ndarray, shape (heads, patterns)
    heads, patterns : list of str
        Names of the rows and of the columns.
    title, label : str
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    ax = new_axes((8, 0.36 * len(heads) + 2.2)) if ax is None else ax
    draw_map(ax, scores, label, numbers=True, form="{:.2f}")
    name_ticks(ax.xaxis, range(len(patterns)), patterns)
    name_ticks(ax.yaxis, range(len(heads)), heads)
    ax.set(title=title)
    return ax
