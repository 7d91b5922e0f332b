"""Learning from the prompt: accuracy by examples and by format, and induction heads."""

import numpy as np

from numformer.plots.axes import colours, entitle, faint, new_axes, panels, styled, styles
from numformer.plots.attention.maps import attention_map
from numformer.plots.tokens import name_ticks, plain


@styled
def accuracy_by_shots(shots, curves, matching=None, ax=None,
                      title="Accuracy by examples in the prompt"):
    """A curve for each model, with the number of examples on the horizontal axis.

    Parameters
    ----------
    shots : sequence of int
    curves : dict of str to sequence of float
        Accuracies, one for each number of examples.
    matching : sequence of float, optional
        Those of the best rule, drawn in grey.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If a curve has another number of points than `shots`.
    """
    for name, curve in curves.items():
        if len(curve) != len(shots):
            raise ValueError(f"accuracy_by_shots: {name} has {len(curve)} accuracies for "
                             f"{len(shots)} numbers of examples; give one for each.")
    ax = new_axes() if ax is None else ax
    at = np.arange(len(shots))
    if matching is not None:
        ax.plot(at, matching, color=faint(ax), linewidth=6, label="best possible: match the key")
    for (name, curve), style in zip(curves.items(), styles(ax, len(curves))):
        ax.plot(at, curve, **style, label=plain(name))
    ax.set_xticks(at, [str(n) for n in shots])
    ax.set(xlabel="examples in the prompt", ylabel="accuracy", ylim=(-0.02, 1.02), title=title)
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


@styled
def accuracy_bars(accuracies, ax=None, title="Accuracy by prompt", chance=None,
                  chance_label="guessing"):
    """A horizontal bar for each prompt, with its accuracy.

    Parameters
    ----------
    accuracies : dict of str to float
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str
    chance : float, optional
        Accuracy without what is measured, such as that of guessing, drawn as a line.
    chance_label : str
        What the line is, for the legend.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If there is nothing to draw.
    """
    if not accuracies:
        raise ValueError("accuracy_bars: accuracies is empty; there is nothing to draw.")
    ax = new_axes((8, 1.2 + 0.44 * len(accuracies))) if ax is None else ax
    bars = ax.barh(range(len(accuracies)), list(accuracies.values()), color=colours(ax)[2])
    name_ticks(ax.yaxis, range(len(accuracies)), accuracies)
    ax.bar_label(bars, fmt="%.2f", padding=3)
    ax.invert_yaxis()
    if chance is not None:
        ax.axvline(chance, color=colours(ax)[1], linestyle="--", label=plain(chance_label))
        ax.legend(loc="lower right")
    ax.set(xlabel="accuracy", xlim=(0, 1.1), title=title)
    return ax


@styled
def induction_panels(history, figures, weights, tokens, head, ax=None,
                     title="Induction heads: they form, and recall depends on them"):
    """Scores of every head over the steps, what ablation does, and the map of one head.

    Parameters
    ----------
    history : list of (step, recall, induction, previous)
        Scores of shape (layers, H).
    figures : dict of str to float
        With recall, without_induction_heads and without_other_heads.
    weights : ndarray, shape (T, T)
        Attention weights of the head with the highest induction score.
    tokens : list of str
        Labels of them.
    head : (int, int)
        The layer and head of these weights, from 0.
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str

    Returns
    -------
    Figure
    """
    (left, right), (bars, shown) = grid = panels(ax, 2, 2, (8, 9), height_ratios=(1, 1.2))
    steps = [entry[0] for entry in history]
    for axes, which, name in ((left, 2, "induction score"), (right, 3, "previous-token score")):
        scores = np.array([entry[which] for entry in history])        # (steps, layers, H)
        for layer, style in enumerate(styles(axes, scores.shape[1])):
            for number, curve in enumerate(scores[:, layer].T):
                axes.plot(steps, curve, **style, markersize=3, label=(
                    f"heads of layer {layer + 1}" if number == 0 else None))
        axes.plot(steps, [entry[1] for entry in history], color=faint(axes), linewidth=5,
                  zorder=0, label="recall (accuracy)")
        axes.set(xlabel="step", ylabel=name, ylim=(-0.02, 1.02), title=f"{name.capitalize()}s")
        axes.grid(alpha=0.3)
        axes.legend()
    accuracy_bars({"all heads": figures["recall"],
                   "without two\nother heads": figures["without_other_heads"],
                   "without two\ninduction heads": figures["without_induction_heads"]},
                  bars, "Recall after ablation")
    attention_map(weights, [token if token != " " else "␣" for token in tokens],
                  np.tri(len(weights), dtype=bool), shown,
                  f"Head {head[1] + 1} of layer {head[0] + 1}")
    entitle(ax, left, title)
    return grid[0, 0].figure
