"""A recurrent network unrolled over time, and the gates of an LSTM over a text."""

import numpy as np

from numformer.checks import check_array, check_whole
from numformer.plots.axes import WIDTH, draw_map, entitle, new_axes, panels, styled
from numformer.plots.models.boxes import GAP, HEIGHT, draw_arrow, draw_box, without_ticks
from numformer.plots.tokens import label_ticks

GATES = {"input": "input gate", "forget": "forget gate", "output": "output gate",
         "cell": "cell"}
ACROSS, NARROW = 3.3, 2.1                                     # of two time steps, and of a box


@styled
def unrolled_rnn(model, length=4, ax=None, title=""):
    """The same cell at every time step: x_t below, the states h_t in a row each, y_t above.

    Parameters
    ----------
    model : RecurrentLanguageModel
        Its layers and its head give the sizes.
    length : int
        Time steps to draw.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str
        By default the kind of the layers and their parameters.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError, TypeError
        If the model has no recurrent layers and head, or the length is not a whole number above 0.
    """
    check_whole("unrolled_rnn", "length", length)
    if not all(hasattr(model, name) for name in ("layers", "head")):
        raise TypeError(f"unrolled_rnn: {type(model).__name__} has no recurrent layers with a head;"
                        " give a RecurrentLanguageModel.")
    kind, L = type(model.layers[0]).__name__, len(model.layers)
    V = model.head.weight.data.shape[0]
    step, right = HEIGHT + 2 * GAP, (length - 1) * ACROSS + NARROW / 2 + 1.9
    if ax is None:
        ax = new_axes((WIDTH, WIDTH * ((L + 2) * step - 2 * GAP + 0.4) / (right + 2.6) + 0.45))
    without_ticks(ax, -2.6, right, -0.3, (L + 2) * step - 2 * GAP + 0.1)
    for t in range(length):
        x, label = t * ACROSS, _subscript(t, length)
        draw_box(ax, x, 0, f"$x_{{{label}}}$", f"({model.layers[0].input.weight.data.shape[0]},)",
                 width=NARROW)
        for k, layer in enumerate(model.layers, start=1):
            bottom = k * step
            name = f"$h_{{{label}}}$" if L == 1 else f"$h^{k}_{{{label}}}$"
            draw_arrow(ax, (x, bottom - 2 * GAP), (x, bottom), label="up")
            draw_box(ax, x, bottom, name, f"({layer.width},)", "attention", NARROW)
            start = (x - ACROSS if t else x - NARROW / 2 - 0.75) + (NARROW / 2 if t else 0)
            draw_arrow(ax, (start, bottom + HEIGHT / 2), (x - NARROW / 2, bottom + HEIGHT / 2),
                       label="time")
            if t == length - 1:
                draw_arrow(ax, (x + NARROW / 2, bottom + HEIGHT / 2),
                           (x + NARROW / 2 + 0.75, bottom + HEIGHT / 2), label="time")
        top = (L + 1) * step
        draw_arrow(ax, (x, top - 2 * GAP), (x, top), label="up")
        draw_box(ax, x, top, f"$y_{{{label}}}$", f"({V},)", "feedforward", NARROW)
    for k, layer in enumerate(model.layers, start=1):
        W, U = layer.input.weight.data.shape, layer.recurrent_weight.data.shape
        ax.text(-1.15, k * step - GAP, f"W {W[0]} x {W[1]}", ha="right", va="center")
        ax.text(right - 1.05, k * step + HEIGHT / 2, f"U\n{U[0]} x {U[1]}", ha="left",
                va="center")
    ax.text(-1.15, (L + 1) * step - GAP, f"{model.layers[-1].width} x {V}", ha="right",
            va="center")
    total = sum(parameter.data.size for layer in model.layers for parameter in layer.parameters())
    ax.set_title(title or f"{kind}, unrolled: the same {total:,} parameters at every step")
    return ax


def _subscript(t, length):
    return "t" if t == length // 2 else f"t{t - length // 2:+d}"


@styled
def lstm_gate_maps(gates, tokens, units=10, ax=None, title="LSTM over a text"):
    """A map for each gate and the cell: a row for each unit, a column for each token.

    The units are those whose forget gate varies most, the one with the largest mean first. Gates
    are fractions, darker for open; the cell is blue below zero and orange above.

    Parameters
    ----------
    gates : dict of str to ndarray of shape (T, F)
        ``input``, ``forget``, ``output`` and ``cell`` of one sequence: see
        `numformer.analysis.lstm_gates`.
    tokens : list of str
        T labels.
    units : int
        Most units to draw.
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str

    Returns
    -------
    Figure

    Raises
    ------
    ValueError, TypeError
        If arrays or labels do not fit, or `units` is not a whole number above 0.
    """
    check_whole("lstm_gate_maps", "units", units)
    sizes = {}
    for name in GATES:
        sizes = check_array("lstm_gate_maps", name, gates[name], "(T, F)", **sizes)
    if len(tokens) != sizes["T"]:
        raise ValueError(f"lstm_gate_maps: {len(tokens)} labels for T={sizes['T']} tokens; give "
                         "one per token.")
    chosen = np.argsort(-gates["forget"].std(axis=0), kind="stable")[:units]
    chosen = chosen[np.argsort(-gates["forget"][:, chosen].mean(axis=0), kind="stable")]
    axes = panels(ax, 4, 1, (WIDTH, 2.4 + 0.85 * len(chosen)))[:, 0]
    for panel, (name, words) in zip(axes, GATES.items()):
        signed = name == "cell"
        draw_map(panel, gates[name][:, chosen].T, "value" if signed else "open", signed=signed,
                 top=None if signed else 1.0, numbers=False)
        panel.set_title(words)
        panel.set_ylabel("unit")
        label_ticks(panel.yaxis, [str(unit) for unit in chosen])
        label_ticks(panel.xaxis, tokens)
    figure = axes[0].figure
    entitle(ax, axes[0], title)
    return figure
