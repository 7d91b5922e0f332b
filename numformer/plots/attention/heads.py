"""Statistics of attention heads: entropy and mean distance."""

import numpy as np

from numformer.plots.axes import WIDTH, draw_map, entitle, panels, styled
from numformer.analysis.attention_statistics import (
    attention_distance, attention_entropy, check_layers)
from numformer.models import VisionTransformer
from numformer.plots.pictures import picture_of_run


@styled
def head_statistics(weights, ax=None, title="Attention heads", distance=True):
    """Two maps with a cell for each head: entropy of its weights in bits, mean distance in tokens.

    Parameters
    ----------
    weights : list of ndarray, each of shape (H, T, S)
        Attention weights of each layer.
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str
    distance : bool
        Whether to draw distances: they are not defined between two texts, or in an image.

    Returns
    -------
    Figure

    Raises
    ------
    ValueError, TypeError
        If there are no layers, or shapes do not match.

    References
    ----------
    See `attention_entropy` and `attention_distance`.
    """
    check_layers("head_statistics", weights)
    L, H = len(weights), len(weights[0])
    measures = [(attention_entropy, "entropy, bits"),
                (attention_distance, "mean distance, tokens")][:1 + distance]
    axes = panels(ax, 1, len(measures), (WIDTH, 1.7 + 0.45 * L))[0]
    for panel, (measure, label) in zip(axes, measures):
        draw_map(panel, np.array([measure(layer) for layer in weights]), label, form="{:.1f}")
        panel.set_xticks(range(H), range(1, H + 1))
        panel.set_yticks(range(L), range(1, L + 1))
        panel.set(xlabel="head", ylabel="layer", title=label.split(",")[0])
    entitle(ax, axes[0], title)
    return axes[0].figure


@picture_of_run("heads", "text", "view")
def _heads(run):
    """Entropy and mean distance of every head."""
    view = run.view()
    in_one_text = view.name != "cross" and not isinstance(run.model, VisionTransformer)
    return head_statistics(view.weights, title=f"Attention heads ({view.name})",
                           distance=in_one_text)
