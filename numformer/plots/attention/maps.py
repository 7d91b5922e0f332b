"""Attention weights as maps: one map, or a small one for every head of every layer."""

import numpy as np

from numformer.checks import check_array
from numformer.plots.axes import (
    entitle, hatch_cells, in_slides, new_axes, panels, sequential, styled)
from numformer.analysis.attention_statistics import (
    attention_rollout, check_layers, distinctive_heads)
from numformer.plots.attention.alignment import aligned
from numformer.plots.pictures import picture_of_run
from numformer.plots.tokens import label_ticks


@styled
def attention_map(weights, tokens=None, mask=None, ax=None, title="Attention"):
    """A row for each query, a column for each key, darker for more weight.

    Colour is proportional to the square root of the weight: most weights are small compared with
    those of a query with few keys.

    Parameters
    ----------
    weights : ndarray, shape (T, S)
        Attention weights of one head, or a mean of several; rows sum to 1.
    tokens : list of str, optional
        Labels of the keys; where T <= S the last T of them label the queries.
    mask : ndarray of bool, shape (T, S), optional
        True where a query may attend to a key. Other cells are hatched.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If shapes or the number of labels do not match.
    """
    T, S = check_array("attention_map", "weights", np.asarray(weights), "(T, S)").values()
    if tokens is not None and len(tokens) != S:
        raise ValueError(f"attention_map: {len(tokens)} labels for S={S} keys; give one per key.")
    _check_mask("attention_map", mask, T, S)
    if ax is None:
        ax = new_axes((8, min(7.4, max(4.0, 2.6 + 0.24 * T))))
    top = float(np.nanmax(weights, initial=0))
    image = draw_weights(ax, np.asarray(weights), tokens, mask, top)
    ax.figure.colorbar(image, ax=ax, label="weight", shrink=0.8)
    ax.set(xlabel="key", ylabel="query", title=title)
    return ax


@styled
def attention_heads(weights, heads, tokens=None, mask=None, ax=None, title="Attention heads"):
    """A map for each chosen head, two in a row, all on one colour scale; as in `attention_map`.

    Parameters
    ----------
    weights : list of ndarray, each of shape (H, T, S)
        Attention weights of each layer.
    heads : list of (int, int)
        Layer and head of each map, from 0; see `numformer.analysis.distinctive_heads`.
    tokens : list of str, optional
        Labels of the keys; where T <= S the last T of them label the queries.
    mask : list of ndarray of bool, shape (T, S), optional
        One for each layer.
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str

    Returns
    -------
    Figure

    Raises
    ------
    ValueError, TypeError
        If shapes do not match, or no heads are chosen, or one does not exist.

    Examples
    --------
    >>> equal = np.full((2, 3, 3), 1 / 3)
    >>> [ax.get_title() for ax in attention_heads([equal], [(0, 1)]).axes if ax.get_title()]
    ['layer 1, head 2']
    """
    check_layers("attention_heads", weights)
    L, H = len(weights), len(weights[0])
    if not heads or not all(0 <= layer < L and 0 <= head < H for layer, head in heads):
        raise ValueError(f"attention_heads: heads={heads} must be at least one (layer, head), "
                         f"counted from 0, of {L} layers with {H} heads.")
    masks = [None] * L if mask is None else mask
    columns = min(2, len(heads)) if not in_slides() else len(heads)
    rows = -(-len(heads) // columns)
    axes = panels(ax, rows, columns, (8, 0.9 + rows * (3.3 if columns > 1 else 6.4)))
    top = max(float(weights[layer][head].max()) for layer, head in heads)
    for panel, (layer, head) in zip(axes.flat, heads):
        image = draw_weights(panel, weights[layer][head], tokens, masks[layer], top)
        panel.set_title(f"layer {layer + 1}, head {head + 1}", pad=9)     # above signs of spaces
    for unused in axes.flat[len(heads):]:
        unused.remove()
    figure = axes[0, 0].figure
    figure.colorbar(image, ax=list(axes.flat[:len(heads)]), label="weight: rows are queries",
                    shrink=0.7)
    entitle(ax, axes[0, 0], title)
    if tokens is not None and ax is None:             # now the maps have their sizes
        figure.draw_without_rendering()
        for panel, (layer, head) in zip(axes.flat, heads):
            _label(panel, tokens, *weights[layer][head].shape)
    return figure


@styled
def attention_grid(weights, mask=None, ax=None, title="Attention"):
    """A small map for each head, a row of them for each layer, all on one colour scale.

    Rows of a map are queries, columns are keys.

    Parameters
    ----------
    weights : list of ndarray, each of shape (H, T, S)
        Attention weights of each layer; T and S may differ from layer to layer, H may not.
    mask : ndarray of bool, shape (T, S), or a list of them, optional
        True where a query may attend to a key: one mask for all layers, or one for each.
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str

    Returns
    -------
    Figure

    Raises
    ------
    ValueError, TypeError
        If shapes do not match.
    """
    check_layers("attention_grid", weights)
    masks = list(mask) if np.ndim(mask) == 3 or isinstance(mask, list) else [mask] * len(weights)
    if len(masks) != len(weights):
        raise ValueError(f"attention_grid: {len(masks)} masks for {len(weights)} layers; give one "
                         "for all, or one for each.")
    for layer, its_mask in zip(weights, masks):
        _check_mask("attention_grid", its_mask, *layer.shape[1:])
    H = len(weights[0])
    axes = panels(ax, len(weights), H, (8, 1.1 + 7.0 / max(H, 4) * len(weights)))
    scale = _root_scale(1.0)
    for number, (row, layer, its_mask) in enumerate(zip(axes, weights, masks), 1):
        for h, (panel, head) in enumerate(zip(row, layer), 1):
            image = panel.imshow(head, cmap=sequential(panel), norm=scale, interpolation="nearest")
            if its_mask is not None:
                hatch_cells(panel, ~np.asarray(its_mask))
            panel.set(xticks=[], yticks=[])
            if number == 1:
                panel.set_title(f"head {h}")
        row[0].set_ylabel(f"layer {number}\nqueries")
    for panel in axes[-1]:
        panel.set_xlabel("keys")
    figure = axes[0, 0].figure
    figure.colorbar(image, ax=list(axes.flat), label="weight", shrink=0.7)
    entitle(ax, axes[0, 0], title)
    return figure


def draw_weights(ax, weights, tokens, mask, top):
    """Draw one map of weights (T, S) with its labels; return the image."""
    T, S = weights.shape
    image = ax.imshow(weights, cmap=sequential(ax), norm=_root_scale(top), interpolation="nearest")
    if mask is not None:
        hatch_cells(ax, ~np.asarray(mask))
    if tokens is not None:
        _label(ax, tokens, T, S)
    return image


def _label(ax, tokens, T, S):
    label_ticks(ax.xaxis, tokens)
    if T <= S:
        label_ticks(ax.yaxis, tokens[S - T:])


def _check_mask(owner, mask, T, S):
    if mask is not None and np.shape(mask) != (T, S):
        raise ValueError(f"{owner}: mask has shape {np.shape(mask)}, but must have (T, S) = ({T}, "
                         f"{S}).")


def _root_scale(top):
    from matplotlib.colors import PowerNorm

    return PowerNorm(0.5, vmin=0, vmax=max(top, 1e-12))


@picture_of_run("attention", "text", "view", "layer", "head")
def _attention(run):
    """Attention weights of the four heads that differ most, in all layers or one; or one head."""
    view = run.view()
    if view.name == "cross":
        return aligned(run, view)
    if run.chosen.head is None:
        first, layers = 0, view.weights
        if run.chosen.layer is not None:
            first, layers = run.layer(view), [view.weights[run.layer(view)]]
        found = [(first + layer, head) for layer, head in distinctive_heads(layers)]
        return attention_heads(view.weights, found, view.keys, list(view.masks),
                               title=f"The heads that differ most{_of(view)}")
    weights, name = run.weights(view)
    return attention_map(weights, view.keys, view.masks[run.layer(view)],
                         title=f"Attention{_of(view)}, {name}")


@picture_of_run("grid", "text", "view")
def _grid(run):
    """Attention weights of every head of every layer."""
    view = run.view()
    return attention_grid(view.weights, list(view.masks),
                          title=f"Attention of all heads ({view.name})")


@picture_of_run("rollout", "text", "view")
def _rollout(run):
    """Attention rollout through all layers."""
    view = run.view(first=True)
    if view.name == "cross":
        raise ValueError("rollout needs self-attention, not cross-attention; choose another "
                         "--view.")
    reach = attention_rollout(view.weights)
    return attention_map(reach, view.keys, reach > 0, title=f"Attention rollout{_of(view)}")


def _of(view):
    """The name of the view, if a model has more than one."""
    return "" if view.name == "self" else f" of the {view.name}"
