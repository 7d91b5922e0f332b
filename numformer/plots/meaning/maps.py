"""Maps of vectors: two directions of the largest variance, coloured by label."""

import numpy as np

from numformer.plots.axes import MARKERS, colours, entitle, panels, styled
from numformer.plots.tokens import SHORT_NAME, legend_columns, plain


def first_two_directions(vectors):
    """Coordinates of vectors (N, C) along the two directions of the largest variance: (N, 2).

    Examples
    --------
    >>> first_two_directions(np.array([[0.0, 3.0], [0.0, -3.0], [1.0, 0.0], [-1.0, 0.0]]))
    array([[ 3.,  0.],
           [-3.,  0.],
           [ 0.,  1.],
           [ 0., -1.]])
    """
    centre, directions = two_directions(vectors)
    return 0.0 + (vectors - centre) @ directions.T


def two_directions(vectors):
    """The mean (C,) of vectors (N, C), and the two directions (2, C) of the largest variance.

    The signs are such that the largest coordinate of each direction is positive.

    Examples
    --------
    >>> two_directions(np.array([[1.0, 3.0], [1.0, -3.0]]))[1][0]
    array([0., 1.])
    """
    centre = vectors.mean(axis=0)
    _, _, directions = np.linalg.svd(vectors - centre, full_matrices=False)
    directions = directions[:2]
    if len(directions) < 2:
        directions = np.vstack([directions, np.zeros_like(directions)])[:2]
    largest = np.abs(directions).argmax(axis=1)
    signs = np.sign(directions[np.arange(2), largest])
    return centre, directions * np.where(signs == 0, 1, signs)[:, None]


@styled
def labelled_maps(maps, columns, title, words=None, ax=None):
    """Draw one map for each set of vectors, with a colour and a marker for each label.

    Parameters
    ----------
    maps : dict of (str, str) to (ndarray of shape (N, C), ndarray of str, shape (N,))
        By the name of the panel and of its row: vectors, and their labels.
    columns : int
        Panels in a row.
    title : str
    words : dict, optional
        By the same keys: a text for each vector, written next to its point.
    ax : matplotlib Axes, optional
        Is replaced by the panels.

    Returns
    -------
    matplotlib Figure
    """
    rows = -(-len(maps) // columns)
    kinds = max(len(set(labels)) for _, labels in maps.values())
    listed = 4 if columns < 4 else 1                  # of a legend's labels in a line
    tall = 8 / columns * 1.15 + (0.25 * kinds if listed == 1 else 0)
    axes = panels(ax, rows, columns, (8, max(0.6 + tall * rows, 4)))
    for panel, (key, (vectors, labels)) in zip(axes.flat, maps.items()):
        points = first_two_directions(np.asarray(vectors, np.float64))
        spread = max(np.abs(points).max(initial=0), 1e-9)
        found = colours(panel)
        for k, label in enumerate(sorted(set(labels))):
            own = points[labels == label]
            panel.scatter(own[:, 0], own[:, 1], s=34 if words else 22, color=found[k % 8],
                          marker=MARKERS[k % 8], alpha=0.8, linewidth=0,
                          label=plain(label, SHORT_NAME))
        for text, (x, y) in zip((words or {}).get(key, ()), points):
            panel.annotate(plain(text), (x, y), xytext=(3, 2), textcoords="offset points")
        panel.set(title=": ".join(plain(part, SHORT_NAME) for part in key if part),
                  xticks=[], yticks=[], xlim=(-1.15 * spread, 1.15 * spread),
                  ylim=(-1.15 * spread, 1.15 * spread))
        if len(set(labels)) > 1:
            columns = legend_columns([plain(each, SHORT_NAME) for each in labels], listed)
            panel.legend(markerscale=1.2, loc="upper center", ncols=columns,
                         bbox_to_anchor=(0.5, 0), columnspacing=1, handletextpad=0.3, frameon=False)
    entitle(ax, axes[0, 0], title)
    for unused in axes.flat[len(maps):]:
        unused.remove()
    return axes[0, 0].figure
