"""The embedding matrix as a map: every token at its first two principal components."""

import numpy as np

from numformer.analysis.token_classes import CLASSES, class_of
from numformer.checks import check_array
from numformer.plots.axes import (
    MARKERS, cell_inches, colours, faint, legend_below, new_axes, styled, text_inches)
from numformer.plots.meaning.maps import two_directions
from numformer.plots.pictures import picture_of_run
from numformer.plots.text.labels import label
from numformer.plots.tokens import LONGEST_TICK, SHORT_NAME, legend_columns, plain, visible
from numformer.underflow import squarable

MOST_POINTS = 110                                     # of a run
# where a label may be, in its own widths and heights from the point
OFFSETS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))


@styled
def embedding_map(vectors, tokens, classes=None, ax=None, title="Token embeddings"):
    r"""Vectors at their coordinates on the two directions of the largest variance.

    .. math:: X - \langle X \rangle = U \Sigma V^\top, \qquad
              \text{coordinates } (X - \langle X \rangle)\, (v_1, v_2)

    A label that would cover another one is left out, those of later tokens first; its point
    remains.

    Parameters
    ----------
    vectors : ndarray, shape (V, C)
        Rows of an embedding matrix.
    tokens : list of V str
    classes : list of V str, optional
        The class of each token: a colour and a marker, in the order of their first tokens.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError, TypeError
        If vectors are no matrix of finite floats with two rows or more, or there is not one token,
        and one class, for each.

    References
    ----------
    Pearson (1901), "On lines and planes of closest fit to systems of points in space".

    Examples
    --------
    >>> ax = embedding_map(np.eye(3), ["a", "b", "c"])
    >>> ax.get_xlabel()
    'first direction, 50% of the variance'
    """
    owner = "embedding_map"
    V = check_array(owner, "vectors", vectors, "(V, C)")["V"]
    classes = [""] * len(tokens) if classes is None else classes
    for name, labels in (("tokens", tokens), ("classes", classes)):
        if len(labels) != V:
            raise ValueError(f"{owner}: {name} has {len(labels)} labels for V={V} vectors; give "
                             "one for each.")
    if V < 2 or not np.isfinite(vectors).all():
        raise ValueError(f"{owner}: vectors must be two or more, and finite; {V} came.")
    vectors = squarable(vectors)
    centre, directions = two_directions(vectors)
    points = (vectors - centre) @ directions.T                        # (V, 2)
    total = ((vectors - centre) ** 2).sum() or 1.0
    shares = (points ** 2).sum(axis=0) / total
    ax = new_axes((8, 6.4)) if ax is None else ax
    ends = 1.12 * np.maximum(np.abs(points).max(axis=0), 1e-9)
    ax.set(xlim=(-ends[0], ends[0]), ylim=(-ends[1], ends[1]), xticks=[], yticks=[], title=title,
           xlabel=f"first direction, {shares[0]:.0%} of the variance",
           ylabel=f"second direction, {shares[1]:.0%}")
    ax.axhline(0, color=faint(ax), linewidth=0.8, zorder=0)
    ax.axvline(0, color=faint(ax), linewidth=0.8, zorder=0)
    names, found = list(dict.fromkeys(classes)), colours(ax)
    colour = {name: found[k % 8] for k, name in enumerate(names)}
    for k, name in enumerate(names):
        own = points[[each == name for each in classes]]
        ax.scatter(*own.T, s=26, color=colour[name], marker=MARKERS[k % 8], linewidth=0,
                   label=plain(name, SHORT_NAME))
    labels = [label(visible(token, LONGEST_TICK)) for token in tokens]
    for n, (x, y) in _places(ax, points, labels, ends):
        ax.text(x, y, labels[n].text, **labels[n].font, ha="center", va="center",
                color=colour[classes[n]])
    if len(names) > 1:
        columns = legend_columns([plain(name, SHORT_NAME) for name in names], len(names))
        legend_below(ax, columns, columnspacing=1.2, handletextpad=0.2)
    return ax


def _places(ax, points, labels, ends):
    """(number, (x, y)) of the labels that have a place where they cover no point and no label.

    It is inside the axes.
    """
    unit = np.array(cell_inches(ax, 2 * ends[0], 2 * ends[1]))        # inches of 1
    inches, height, taken = points * unit, text_inches(), []
    points_of = np.concatenate([inches - 0.04, inches + 0.04], axis=1)        # left, low, right, up
    for n, each in enumerate(labels):
        size = np.array([height * each.width + 0.02, 0.95 * height])
        for offset in OFFSETS:
            middle = inches[n] + np.array(offset) * (size / 2 + 0.06)
            box = np.concatenate([middle - size / 2, middle + size / 2])
            if (np.abs(middle) + size / 2 < ends * unit).all() and not any(
                    _overlap(box, other).any() for other in (np.array(taken).reshape(-1, 4),
                                                             points_of)):
                taken.append(box)
                yield n, middle / unit
                break


def _overlap(box, others):
    """Whether a box (left, low, right, up) overlaps each of others (N, 4)."""
    return ((box[:2] < others[:, 2:]) & (others[:, :2] < box[2:])).all(axis=1)


@picture_of_run("embeddings")
def _embeddings(run):
    """Token embeddings in two dimensions, by the principal components."""
    table = getattr(getattr(run.model, "backbone", run.model), "embedding", None)
    table = getattr(table, "tokens", table)                           # of n-grams: those of tokens
    weight = getattr(table, "weight", None)
    if run.tokenizer is None or weight is None or len(weight.data) < len(run.tokenizer):
        raise ValueError(f"{type(run.model).__name__} has no embedding of tokens.")
    ids = np.arange(len(run.tokenizer.special), len(run.tokenizer))
    texts = {k: run.tokenizer.decode([k]) for k in ids}
    if max(map(len, texts.values())) > 1 and len(ids) > MOST_POINTS:  # merged bytes first
        ids = sorted(ids, key=lambda k: len(texts[k].strip()) < 2)
    classes = {k: class_of(texts[k]) for k in ids}
    shown = sorted(ids[:MOST_POINTS], key=lambda k: CLASSES.index(classes[k]))
    return embedding_map(weight.data[shown], [texts[k] for k in shown],
                         [classes[k] for k in shown], title=f"Embeddings of {len(shown)} tokens")
