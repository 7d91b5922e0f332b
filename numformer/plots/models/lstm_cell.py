"""The LSTM cell as a drawing: what goes where in one time step."""

from numformer.layers import LSTM
from numformer.plots.axes import WIDTH, colours, new_axes, styled
from numformer.plots.models.boxes import HEIGHT, draw_arrow, draw_box, without_ticks

MEMORY, SUM, PRODUCT, GATES, INPUTS = 6.3, 6.3, 4.6, 2.6, 1.5   # heights of rows
FORGET, IN, CANDIDATE, OUT, END = 2.8, 5.5, 8.2, 10.9, 13.2     # columns of gates, and of h'
RADIUS, NARROW, RIGHT = 0.27, 2.2, 15.0
ADD = (IN + CANDIDATE) / 2


@styled
def lstm_cell_diagram(layer, ax=None, title=""):
    r"""The gates of an LSTM cell, its memory along the top, and the sizes of its weights.

    .. math:: c_t = f\, c_{t-1} + i\, g, \qquad h_t = o\, \tanh(c_t)

    The memory passes from the left to the right through a product and a sum alone. Each gate reads
    the input and the last output: see `numformer.functional.lstm_cell`.

    Parameters
    ----------
    layer : LSTM
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str
        By default the number of its parameters.

    Returns
    -------
    Axes

    Raises
    ------
    TypeError
        If the layer is not an LSTM.
    """
    if not isinstance(layer, LSTM):
        raise TypeError(f"lstm_cell_diagram: layer must be an LSTM, but is {layer!r}.")
    (C, columns), F = layer.input.weight.data.shape, layer.width
    if ax is None:
        ax = new_axes((WIDTH, WIDTH * 7.4 / (RIGHT + 1.2)))
    without_ticks(ax, -1.2, RIGHT, 0, 7.4)

    draw_arrow(ax, (0, MEMORY), (FORGET - RADIUS, MEMORY), label="memory")
    draw_arrow(ax, (FORGET + RADIUS, MEMORY), (ADD - RADIUS, SUM), label="memory")
    draw_arrow(ax, (ADD + RADIUS, SUM), (RIGHT - 1, MEMORY), label="memory")
    for x, y, sign in ((FORGET, MEMORY, "×"), (ADD, SUM, "+"), (ADD, PRODUCT, "×"),
                       (END, PRODUCT - 0.7, "×")):
        _node(ax, x, y, sign)
    top = GATES + HEIGHT
    for x, name, gate in ((FORGET, r"forget: $\sigma$", "f"), (IN, r"input: $\sigma$", "i"),
                          (CANDIDATE, "new: tanh", "g"), (OUT, r"output: $\sigma$", "o")):
        draw_box(ax, x, GATES, name, kind="attention", width=NARROW)
        draw_arrow(ax, (x, INPUTS), (x, GATES), label="inputs")
        ax.text(x - 0.15, top + 0.2, f"${gate}$", ha="right", va="bottom")
    draw_arrow(ax, (FORGET, top), (FORGET, MEMORY - RADIUS))
    draw_arrow(ax, (IN, top), (IN, PRODUCT), (ADD - RADIUS, PRODUCT))
    draw_arrow(ax, (CANDIDATE, top), (CANDIDATE, PRODUCT), (ADD + RADIUS, PRODUCT))
    draw_arrow(ax, (ADD, PRODUCT + RADIUS), (ADD, SUM - RADIUS))
    draw_box(ax, END, PRODUCT + 0.2, "tanh", kind="feedforward", width=1.3)
    draw_arrow(ax, (END, MEMORY), (END, PRODUCT + 0.2 + HEIGHT))
    draw_arrow(ax, (END, PRODUCT + 0.2), (END, PRODUCT - 0.7 + RADIUS))
    draw_arrow(ax, (OUT, top), (OUT, PRODUCT - 0.7), (END - RADIUS, PRODUCT - 0.7))
    draw_arrow(ax, (END + RADIUS, PRODUCT - 0.7), (RIGHT - 1, PRODUCT - 0.7))
    ax.plot([0, OUT], [INPUTS, INPUTS], color=colours(ax)[0], linewidth=1.2)
    draw_arrow(ax, (1.0, 0.5), (1.0, INPUTS))

    for x, y, name in ((-0.15, MEMORY, "$c_{t-1}$"), (-0.15, INPUTS, "$h_{t-1}$")):
        ax.text(x, y, name, ha="right", va="center")
    for y, name in ((MEMORY, "$c_t$"), (PRODUCT - 0.7, "$h_t$")):
        ax.text(RIGHT - 0.85, y, name, ha="left", va="center")
    ax.text(0.8, 0.6, "$x_t$", ha="right", va="center")
    ax.text((FORGET + OUT) / 2 + 0.3, 0.6, "each reads its part of $x_t W + h_{t-1} U$"
            f",  W {C} x {columns}, U {F} x {columns}", ha="center", va="center")
    total = sum(parameter.data.size for parameter in layer.parameters())
    ax.set_title(title or f"LSTM cell: {total:,} parameters, the same at every step")
    return ax


def _node(ax, x, y, sign):
    """A circle in which two inputs are multiplied or added, coordinate by coordinate."""
    from matplotlib.patches import Circle

    ax.add_patch(Circle((x, y), RADIUS, facecolor="none", edgecolor=colours(ax)[1], linewidth=1.4))
    ax.text(x, y, sign, ha="center", va="center_baseline", color=colours(ax)[1])
