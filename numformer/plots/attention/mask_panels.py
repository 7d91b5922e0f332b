"""Masks of several models, next to each other."""

import numpy as np

from numformer.plots.axes import colours, entitle, faint, panels, styled
from numformer.plots.text.labels import ORDINARY, label
from numformer.plots.tokens import SHORT_NAME, label_ticks, plain, visible, write_ticks

FEW = 8                                               # tokens whose short labels are all written


@styled
def mask_panels(masks, tokens, inputs=None, ax=None, title="Who may attend to whom"):
    """A panel for each model: filled cells are pairs of a query (row) and a key it may attend to.

    Parameters
    ----------
    masks : dict of str to ndarray of bool, shape (T, T)
        By the name of the model.
    tokens : dict of str to list of str
        T labels for each model.
    inputs : dict of str to int, optional
        Of encoder-decoders: how many of the tokens are the input; lines divide the parts.
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If there are no masks, or one is not square or has other labels.
    """
    from matplotlib.colors import ListedColormap

    if not masks:
        raise ValueError("mask_panels: masks is empty; there is nothing to draw.")
    for name, mask in masks.items():
        if mask.ndim != 2 or mask.shape != (len(tokens[name]),) * 2:
            raise ValueError(f"mask_panels: the mask of {name} has shape {mask.shape}, but must be "
                             f"(T, T) with a label for each of T={len(tokens[name])} tokens.")
    axes = panels(ax, 1, len(masks), (8, 1.1 + 7.2 / len(masks)))[0]
    for panel, (name, mask) in zip(axes, masks.items()):
        panel.imshow(mask, cmap=ListedColormap([panel.get_facecolor(), colours(panel)[3]]), vmin=0,
                     vmax=1, interpolation="nearest")
        T = len(mask)
        panel.hlines(np.arange(-0.5, T), -0.5, T - 0.5, color=faint(panel), linewidth=0.7)
        panel.vlines(np.arange(-0.5, T), -0.5, T - 0.5, color=faint(panel), linewidth=0.7)
        for axis in (panel.xaxis, panel.yaxis):
            labels = [label(visible(token)) for token in tokens[name]]
            if T <= FEW and max(each.width for each in labels) <= 2 * ORDINARY:
                write_ticks(axis, range(T), labels)                   # each has space
            else:
                label_ticks(axis, tokens[name])
        panel.tick_params(length=0)
        if (inputs or {}).get(name):
            panel.axhline(inputs[name] - 0.5, color=colours(panel)[1], linewidth=2.5)
            panel.axvline(inputs[name] - 0.5, color=colours(panel)[1], linewidth=2.5)
        panel.set_title(plain(name, SHORT_NAME))
        panel.set_xlabel("key")
        panel.set_ylabel("query")
    entitle(ax, axes[0], title)
    return axes[0].figure
