"""The picture of an alignment: which parts of a source each part of its translation looked at."""

import numpy as np

from numformer.checks import check_array
from numformer.plots.axes import new_axes
from numformer.plots.tokens import label_ticks


def alignment_map(weights, read, written, ax=None, title="Alignment"):
    """A row for every token that was written, a column for every token that was read, brighter for more weight.

    Where the order of two languages is the same, the bright cells lie on the diagonal; where it differs, they leave it.

    Parameters
    ----------
    weights : ndarray, shape (T, S)
        Attention weights from a decoder to a memory, of one head or a mean of several: row t is what was looked at when token t
        was written. Rows sum to 1.
    read, written : list of str
        Labels of the columns and of the rows.
    ax : matplotlib Axes, optional
        Where to draw; a new figure unless given.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError, TypeError
        If weights are no matrix of floats, or the number of labels does not fit.

    References
    ----------
    Bahdanau, Cho, Bengio (2015), "Neural Machine Translation by Jointly Learning to Align and Translate", figure 3.
    """
    T, S = check_array("alignment_map", "weights", np.asarray(weights), "(T, S)").values()
    for name, labels, size in (("read", read, S), ("written", written, T)):
        if len(labels) != size:
            raise ValueError(f"alignment_map: {name} has {len(labels)} labels, but weights of shape {(T, S)} need {size}.")
    if ax is None:
        ax = new_axes((3 + 0.33 * S, 2 + 0.3 * T))
    image = ax.imshow(weights, cmap="cividis", vmin=0, vmax=1)
    ax.figure.colorbar(image, ax=ax, label="weight", shrink=0.8)
    label_ticks(ax.xaxis, read, size=9)
    label_ticks(ax.yaxis, written, size=9)
    ax.set(xlabel="read", ylabel="written", title=title)
    return ax
