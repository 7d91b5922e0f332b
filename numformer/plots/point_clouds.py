"""A point cloud in two orders of its points: a model of sets says the same of both."""

import numpy as np

from numformer.checks import check_array
from numformer.plots.axes import colours, legend_below, panels, sequential, styled
from numformer.plots.tokens import plain


@styled
def cloud_orders(points, order, logits, names, ax=None):
    """A cloud twice, the colour of a point being its place in the input, and the logits of both.

    Parameters
    ----------
    points : ndarray, shape (T, 3)
    order : ndarray of int, shape (T,)
        The points of the second cloud, as numbers of the first.
    logits : ndarray, shape (2, n_classes)
        Of the first and of the second.
    names : sequence of str
        Of the classes.
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError, TypeError
        If shapes do not match.
    """
    owner = "cloud_orders"
    T = check_array(owner, "points", points, "(T, 3)", **{"3": 3})["T"]
    check_array(owner, "logits", logits, "(2, classes)", **{"2": 2, "classes": len(names)})
    if np.sort(order).tolist() != list(range(T)):
        raise ValueError(f"{owner}: order must be a permutation of 0 .. {T - 1}.")
    first, second, below = panels(ax, 1, 3, (8.0, 3.2), width_ratios=[1, 1, 1.2])[0]
    for each, cloud, title in ((first, points, "as given"), (second, points[order], "shuffled")):
        across = cloud[:, 0] + 0.35 * cloud[:, 1]                     # seen from the side
        each.scatter(across, cloud[:, 2] + 0.35 * cloud[:, 1], c=np.arange(T), s=24,
                     cmap=sequential(each), vmin=-T / 3)
        each.set(title=f"Points, {title}", xticks=[], yticks=[], aspect="equal",
                 xlabel="dark: late in the input")
    rows, (blue, accent) = np.arange(len(names)), colours(below)[:2]
    below.barh(rows - 0.2, logits[0], 0.4, color=blue, label="as given")
    below.barh(rows + 0.2, logits[1], 0.4, color=accent, label="shuffled")
    below.set_yticks(rows, [plain(name) for name in names])
    below.invert_yaxis()
    below.set(title="Logits", xlabel="logit")
    legend_below(below, 2)
    return first
