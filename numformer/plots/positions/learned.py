"""Learned position embeddings: the vectors, and how similar those of two positions are."""

import numpy as np

from numformer.checks import check_array
from numformer.plots.axes import draw_map, entitle, in_slides, panels, styled
from numformer.underflow import squarable


@styled
def learned_positions(vectors, ax=None, title="Positions"):
    r"""Position vectors, a row for each, and the matrix of their cosines.

    .. math:: c_{st} = \frac{p_s \cdot p_t}{\lVert p_s \rVert \lVert p_t \rVert}

    Vectors of neighbours that are alike give a band around the diagonal.

    Parameters
    ----------
    vectors : ndarray, shape (T, C)
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str

    Returns
    -------
    Figure

    Raises
    ------
    ValueError, TypeError
        If vectors are no matrix of floats, or one of them is zero.

    References
    ----------
    Wang and Chen (2020), "What Do Position Embeddings Learn?", figure 1.

    Examples
    --------
    >>> figure = learned_positions(np.eye(3))
    >>> figure.axes[1].images[0].get_array().data
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """
    check_array("learned_positions", "vectors", vectors, "(T, C)")
    scaled = squarable(vectors)
    norms = np.sqrt((scaled ** 2).sum(axis=1, keepdims=True))
    if not norms.size or not norms.all():
        raise ValueError("learned_positions: a vector is zero, so its cosine is undefined; "
                         "give vectors of positions that the model has learned.")
    directions = scaled / norms
    left, right = panels(ax, *((1, 2) if in_slides() else (2, 1)), (8, 9.6),
                         **({} if in_slides() else {"height_ratios": (0.72, 1)})).flat
    draw_map(left, vectors, "value", signed=True, numbers=False)
    left.set(xlabel="coordinate", ylabel="position", title="vectors")
    draw_map(right, directions @ directions.T, "cosine", signed=True, top=1.0, numbers=False)
    right.set(xlabel="position", ylabel="position", title="similarity of two vectors",
              aspect="equal")
    entitle(ax, left, title)
    return left.figure
