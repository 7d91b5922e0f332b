"""An alignment: how much each target token attends to each source token."""

import numpy as np

from numformer.checks import check_array
from numformer.plots.axes import new_axes, sequential, styled
from numformer.plots.pictures import picture_of_run
from numformer.plots.tokens import label_ticks


@styled
def alignment_map(weights, source, target, ax=None, title="Alignment", scale="weight"):
    """A row for each target token, a column for each source token, darker for more weight.

    Where both languages have the same word order, the dark cells are on the diagonal.

    Parameters
    ----------
    weights : ndarray, shape (T, S)
        Attention weights from a decoder to the encoder's outputs, of one head or a mean of
        several: row t holds the weights that produced target token t. Rows sum to 1.
    source, target : list of str
        Labels of the columns and of the rows.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str
    scale : str
        The label of the colour scale, which runs from 0 to 1; "" for none.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError, TypeError
        If weights are not a matrix of floats, or the number of labels does not match.

    References
    ----------
    Bahdanau, Cho, Bengio (2015), "Neural Machine Translation by Jointly Learning to Align and
    Translate", figure 3.
    """
    T, S = check_array("alignment_map", "weights", np.asarray(weights), "(T, S)").values()
    for name, labels, size in (("source", source, S), ("target", target, T)):
        if len(labels) != size:
            raise ValueError(f"alignment_map: {name} has {len(labels)} labels, but weights of "
                             f"shape {(T, S)} need {size}.")
    if ax is None:
        ax = new_axes((8, max(3.4, 1.9 + 0.27 * T)))
    image = ax.imshow(weights, cmap=sequential(ax), vmin=0, vmax=1, aspect="auto",
                      interpolation="nearest")
    if scale:
        ax.figure.colorbar(image, ax=ax, label=scale, shrink=0.8)
    label_ticks(ax.xaxis, source)
    label_ticks(ax.yaxis, target)
    ax.set(xlabel="source", ylabel="target", title=title)
    return ax


@picture_of_run("alignment", "text", "view", "layer", "head")
def _alignment(run):
    """Cross-attention of each target token to the source tokens."""
    view = run.view("cross")
    if view.name != "cross":
        raise ValueError("alignment needs --view cross; leave --view out.")
    return aligned(run, view)


def aligned(run, view):
    """The chosen layer and head of the cross-attention of a run."""
    weights, name = run.weights(view)
    return alignment_map(weights, view.keys, view.queries, title=f"Alignment, {name}")
