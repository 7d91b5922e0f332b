"""Heads with their scores: maps of the head that follows each pattern most."""

import numpy as np

from numformer.analysis.attention_statistics import check_layers
from numformer.analysis.attention_views import Reading, attention_views
from numformer.analysis.heads.patterns import (
    attention_patterns, pattern_targets, weights_of_rows)
from numformer.analysis.induction import head_scores, induction_targets
from numformer.models import Decoder
from numformer.plots.attention.maps import draw_weights
from numformer.plots.axes import colours, draw_map, entitle, in_slides, panels, styled
from numformer.plots.pictures import picture_of_run
from numformer.plots.text.labels import label
from numformer.plots.text.letters import signs
from numformer.plots.tokens import SHORT_NAME, label_ticks, name_ticks, plain, write_ticks

MOST_HEADS = 16                                       # whose names are all written
SEQUENCES = 32                                        # that scores of heads are measured on


@styled
def heads_by_pattern(scores, weights, tokens, targets=None, mask=None, ax=None,
                     title="Heads by pattern"):
    """The score of every head for each pattern, and the map of the head with the highest one.

    Parameters
    ----------
    scores : dict of str to ndarray, shape (layers, H)
        By pattern, such as those of `numformer.analysis.attention_patterns`, or the induction and
        previous-token scores of `numformer.analysis.head_scores`.
    weights : list of ndarray, each of shape (H, T, T)
        Attention weights of each layer for one text.
    tokens : list of T str
    targets : dict of str to ndarray of bool, shape (T, T), optional
        By pattern, the keys that it wants: they have a frame.
    mask : ndarray of bool, shape (T, T), optional
        True where a query may attend to a key. Other cells are hatched.
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str

    Returns
    -------
    Figure

    Raises
    ------
    ValueError, TypeError
        If there are no patterns, or shapes or the number of tokens do not match.

    References
    ----------
    Clark et al. (2019), "What Does BERT Look At?", figure 1; Olsson et al. (2022), "In-context
    Learning and Induction Heads".

    Examples
    --------
    >>> previous, equal = np.eye(3)[[0, 0, 1]], np.full((3, 3), 1 / 3)
    >>> figure = heads_by_pattern({"previous": np.array([[0.3, 1.0]])},
    ...                           [np.array([equal, previous])], list("abc"))
    >>> figure.axes[1].get_title()
    'previous: 1.00 (layer 1, head 2)'
    """
    owner = "heads_by_pattern"
    check_layers(owner, weights)
    L, (H, T, S) = len(weights), weights[0].shape
    if not scores or any(np.shape(score) != (L, H) for score in scores.values()):
        raise ValueError(f"{owner}: scores must have an array of shape (layers, H) = ({L}, {H}) "
                         "for each of at least one pattern.")
    if len(tokens) != T or T != S:
        raise ValueError(f"{owner}: {len(tokens)} tokens came for weights of shape "
                         f"{weights[0].shape}; give (H, T, T) and T tokens.")
    names, n, slide = list(scores), len(scores), in_slides()
    columns = min(n, 3 if slide and n > 4 else 2)
    rows = -(-n // columns)
    table = np.array([np.ravel(scores[name]) for name in names])      # (patterns, heads)
    if slide:
        above, below = panels(ax, 1, 2, (8, 8), width_ratios=(1.6 if n > 2 else 0.8, 2))[0]
    else:
        heights = 0.95 + 0.33 * n, 7.9 / columns * rows
        above, below = panels(ax, 2, 1, (8, 0.4 + sum(heights)), height_ratios=heights)[:, 0]
    _draw_table(above, table.T if slide else table, names, [
        f"{layer}.{head}" for layer in range(1, L + 1) for head in range(1, H + 1)])
    maps = panels(below, rows, columns, (8, 8))
    for panel, name in zip(maps.flat, names):
        layer, head = np.unravel_index(np.argmax(scores[name]), (L, H))
        shown = None if slide and columns > 2 else tokens
        draw_weights(panel, weights[layer][head], shown, mask, 1.0)
        if shown is None:
            panel.set(xticks=[], yticks=[])
        if targets and name in targets:
            _frame_cells(panel, targets[name])
        panel.set_title(f"{plain(name, 12)}: {scores[name][layer, head]:.2f}"
                        + f" (layer {layer + 1}, head {head + 1})" * (not slide)
                        + f"\nhead {layer + 1}.{head + 1}" * slide)
    for unused in maps.flat[n:]:
        unused.remove()
    entitle(ax, above, title)
    return above.figure


def _draw_table(ax, table, patterns, heads):
    """The scores; the highest of each pattern has a frame."""
    across = table.shape[0] == len(patterns) and table.shape[1] == len(heads)
    draw_map(ax, table, "", top=1.0, form="{:.2f}", numbers=len(heads) <= MOST_HEADS)
    x, y = (heads, patterns) if across else (patterns, heads)
    # names in two lines, so that they do not overlap
    write_ticks(ax.xaxis, range(len(x)),
                [label(plain(name, SHORT_NAME).replace(" ", "\n")) for name in x],
                rotation=0 if across or len(x) < 3 else 60)
    name_ticks(ax.yaxis, range(len(y)), y)
    if len(heads) > MOST_HEADS:
        label_ticks(ax.xaxis if across else ax.yaxis, heads)
    ax.set(**{"xlabel" if across else "ylabel": "layer.head"})
    best = np.zeros(table.shape, bool)
    along = 1 if across else 0
    np.put_along_axis(best, np.expand_dims(table.argmax(axis=along), along), True, axis=along)
    _frame_cells(ax, best)


def _frame_cells(ax, cells):
    """A frame around each cell where a matrix of bool is True."""
    from matplotlib.collections import PolyCollection

    shapes = [[(x - 0.5, y - 0.5), (x + 0.5, y - 0.5), (x + 0.5, y + 0.5), (x - 0.5, y + 0.5)]
              for y, x in np.argwhere(cells)]
    ax.add_collection(PolyCollection(shapes, facecolor="none", edgecolor=colours(ax)[1],
                                     linewidth=1.6), autolim=False)


@picture_of_run("induction", "text")
def _induction(run):
    """Previous-token and induction heads of a decoder: scores of all heads, and maps."""
    if not isinstance(run.model, Decoder):
        raise ValueError(f"{type(run.model).__name__} has no causal self-attention, which "
                         "induction heads need; give the run of a Decoder.")
    if run.chosen.text is not None:
        ids = run.reading().inputs[0][0]
        sequences, queries = ids[None], None
    else:
        sequences, queries, ids = run.task.repeating(
            run.model.config, run.tokenizer, SEQUENCES, np.random.default_rng(0))
    scores, previous = head_scores(run.model, sequences, queries)
    texts = [run.tokenizer.decode([token]) for token in ids]
    (view,) = attention_views(run.model, Reading((ids[None],), texts))
    after = induction_targets(ids)
    if queries is not None:
        after &= queries[0, :len(ids), None]
    return heads_by_pattern(
        {"previous token": previous, "induction": scores}, view.weights, texts,
        {"previous token": np.eye(len(ids), k=-1, dtype=bool), "induction": after}, view.masks[0],
        title="Previous-token and induction heads")


@picture_of_run("patterns", "text", "view")
def _patterns(run):
    """Heads of an encoder by pattern: previous, own and next token, [CLS], [SEP], all alike."""
    rows = run.task.held_out_rows(run.tokenizer, run.model.config)
    if rows is not None and run.chosen.text is None:                  # the shortest held-out text
        n = int(rows.lengths.argmin())
        ids = rows.ids[n, :rows.lengths[n]]
        reading = Reading((ids[None],), [run.tokenizer.decode([token]) for token in ids])
        view = attention_views(run.model, reading)[0]
    else:
        reading, view = run.reading(), run.view(first=True)
    if not all(mask.all() for mask in view.masks):
        raise ValueError("its tokens attend to earlier ones alone; patterns need an encoder, such "
                         "as that of a run of bert.")
    separators = _separators(run, reading.inputs[0][0])
    if rows is None:
        texts, counted = [(view.weights, separators)], "for this text"
    else:
        some = rows.take(np.arange(min(SEQUENCES, len(rows.ids))))
        texts = [(weights, _separators(run, ids[:n])) for weights, ids, n in zip(
            weights_of_rows(run.model, some), some.ids, some.lengths)]
        counted = f"mean of {len(texts)} held-out texts"
    names = {"first": signs(view.keys[0])} | {"separator": signs(view.keys[t]) for t in separators}
    scores, targets = ({names.get(name, name): value for name, value in found.items()}
                       for found in (attention_patterns(texts),
                                     pattern_targets(len(view.keys), separators)))
    return heads_by_pattern(scores, view.weights, view.keys, targets,
                            title=f"Attention by pattern, {counted}")


def _separators(run, ids):
    """The positions of [SEP] in a row, or of what a tokenizer has in its place; not the first."""
    return [int(t) for t in np.flatnonzero(ids == run.task.separator(run.tokenizer)) if t]
