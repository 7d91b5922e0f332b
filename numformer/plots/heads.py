"""Heads at a glance: how spread out each looks, and how far."""

import numpy as np

from numformer.plots.axes import draw_map, entitle, panels
from numformer.plots.statistics import attention_distance, attention_entropy, check_layers


def head_statistics(weights, ax=None, title="What heads do", distance=True):
    """Two maps with a cell for every head, numbers in them: the entropy of its looks in bits, and their mean distance in tokens.

    Parameters
    ----------
    weights : list of ndarray, each of shape (H, T, S)
        Attention weights of every layer.
    ax : matplotlib Axes, optional
        In whose place to draw; a new figure unless given.
    title : str
    distance : bool
        Whether to draw distances: where queries and keys stand in two texts, or in an image, there are none.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError, TypeError
        If there are no layers, or shapes do not fit.

    References
    ----------
    See `attention_entropy` and `attention_distance`.
    """
    check_layers("head_statistics", weights)
    L, H = len(weights), len(weights[0])
    measures = [(attention_entropy, "entropy, bits"), (attention_distance, "mean distance, tokens")][:1 + distance]
    axes = panels(ax, 1, len(measures), ((2.5 + 1.1 * H) * len(measures) / 2 + 0.5, 1.6 + 0.45 * L))[0]
    for panel, (measure, label) in zip(axes, measures):
        draw_map(panel, np.array([measure(layer) for layer in weights]), label, spelled="{:.1f}")
        panel.set_xticks(range(H), range(1, H + 1))
        panel.set_yticks(range(L), range(1, L + 1))
        panel.set(xlabel="head", ylabel="layer", title=label.split(",")[0])
    entitle(ax, axes[0], title)
    return axes[0].figure
