"""Numbers of several models, by class: their medians and spreads side by side."""

import numpy as np

from numformer.plots.axes import WIDTH, new_axes, styled, styles
from numformer.plots.tokens import name_ticks, plain


@styled
def values_by_class(values, classes, label, title, ax=None):
    """Draw the median and the middle half of numbers, for each model and each class.

    Parameters
    ----------
    values : dict of str to list of ndarray
        By the name of a model: the numbers of each class.
    classes : list of str
    label : str
        What the numbers are.
    title : str
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib Axes
    """
    ax = new_axes((WIDTH, 5)) if ax is None else ax
    width = 0.8 / len(classes)
    for k, (name, style) in enumerate(zip(classes, styles(ax, len(classes)))):
        quartiles = np.array([np.percentile(each[k], (25, 50, 75)) for each in values.values()])
        x = np.arange(len(values)) + (k - (len(classes) - 1) / 2) * width
        low, middle, high = quartiles.T
        ax.errorbar(x, middle, [middle - low, high - middle], label=plain(name), linestyle="none",
                    color=style["color"], marker=style["marker"], capsize=4)
    name_ticks(ax.xaxis, range(len(values)), values)
    ax.set(ylabel=f"{label}\n(median and middle half)", title=title)
    ax.legend()
    return ax
