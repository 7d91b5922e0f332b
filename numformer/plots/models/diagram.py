"""The architecture of a model as a diagram of boxes and arrows, drawn from its layers."""

from numformer.analysis.structure.architecture import Architecture, Stack, architecture
from numformer.plots.axes import new_axes
from numformer.plots.models.boxes import (
    GAP, HEIGHT, WIDTH, draw_arrow, draw_box, draw_frame, draw_sum, without_ticks)

ASIDE = 0.55                                                  # of a residual arrow from its boxes
BETWEEN, SIDE = 3.6, 2.0                                      # columns; to the left and right
INCHES = 0.62                                                 # of a unit


def architecture_diagram(model, ax=None, title=""):
    """Boxes and arrows from the input at the bottom to the heads on top.

    Equal blocks are drawn once, with their number. Arrows around boxes are residual connections;
    an arrow from column to column carries the encoder's output to every cross-attention.

    Parameters
    ----------
    model : Architecture, or what `numformer.analysis.architecture` reads
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure of fitting size by default.
    title : str
        The number of parameters follows it.

    Returns
    -------
    Axes

    Raises
    ------
    TypeError
        If the architecture of the model cannot be read.
    """
    found = model if isinstance(model, Architecture) else architecture(model)
    centres, x = [], 0.0
    for column in found.columns:
        reach = max(WIDTH, _width(column))
        centres.append(x + reach / 2)
        x += reach + BETWEEN
    tall, left, right = max(map(_height, found.columns)), -SIDE, x - BETWEEN + SIDE
    if ax is None:
        ax = new_axes((INCHES * (right - left), INCHES * (tall + 0.7) + 0.4))
    without_ticks(ax, left, right, -0.7, tall)
    output = None
    for centre, column in zip(centres, found.columns):
        output = _draw_column(ax, column, centre, output)
    count = f"{found.parameters:,} parameters"
    ax.set_title(f"{title}: {count}" if title else count)
    return ax


def _width(column):
    wide = [2 * WIDTH + 0.6 for part in column.parts if isinstance(part, Stack) and part.parallel]
    return max([len(column.heads) * (WIDTH + 0.4), *wide])


def _height(column):
    """Of a column: what `_draw_column` draws, and the label of its output."""
    total = 0.0
    for part in column.parts:
        if not isinstance(part, Stack):
            total += HEIGHT + GAP
            continue
        tall = [len(branch.boxes + branch.after_sum) * (HEIGHT + GAP) + 0.4 + GAP
                for branch in part.branches]
        total += (max(tall) if part.parallel else sum(tall)) + 1.25 * GAP
    return total + max([len(head) for head in column.heads], default=0) * (HEIGHT + GAP) + GAP


def _draw_column(ax, column, x, memory):
    """Draw a column; returns the point at which it ends."""
    ax.text(x, -0.4, column.input, ha="center", va="center", fontsize=11)
    y = -0.15
    for part in column.parts:
        if isinstance(part, Stack):
            y = _draw_stack(ax, part, x, y, memory)
        else:
            y = _next_box(ax, part, x, y)
    for k, head in enumerate(column.heads):
        centre = x + (k - (len(column.heads) - 1) / 2) * (WIDTH + 0.4)
        top = y
        if centre != x:
            ax.plot((x, x, centre), (y, y + GAP / 2, y + GAP / 2), color=_ink(ax), linewidth=1.2)
            top = y + GAP / 2
        for box in head:
            top = _next_box(ax, box, centre, top, y + GAP if top < y + GAP else None)
        draw_arrow(ax, (centre, top), (centre, top + GAP))
    return x, y


def _draw_stack(ax, stack, x, y, memory):
    """The branches of a block within a frame that says how often it is repeated."""
    bottom = y + GAP / 2
    y = bottom + GAP / 4
    draw_arrow(ax, (x, bottom - GAP / 2), (x, y))
    half = WIDTH / 2 + ASIDE + 0.2
    if stack.parallel:
        half = WIDTH + 0.3 + 0.2
        y = _draw_parallel(ax, stack.branches, x, y)
    else:
        for branch in stack.branches:
            y = _draw_branch(ax, branch, x, y, memory)
    top = y + GAP / 2
    ax.plot((x, x), (y, top), color=_ink(ax), linewidth=1.2)
    draw_frame(ax, x - half, bottom, x + half, top)
    ax.text(x + half + 0.12, top, f"x {stack.repeat}", ha="left", va="top", fontsize=15,
            fontweight="bold")
    for box in stack.shared:
        ax.text(x + half + 0.15, bottom, f"{box.name}, {box.detail}:\none for all blocks",
                ha="left", va="bottom", fontsize=10.5, rotation=90)
    return top


def _draw_branch(ax, branch, x, y, memory):
    """Boxes, the sum with the residual connection around them, and a norm after it."""
    start = y + GAP / 3
    ax.plot((x, x), (y, start), color=_ink(ax), linewidth=1.2)
    y = start
    for box in branch.boxes:
        y = _next_box(ax, box, x, y)
        if branch.reads_memory and box.name == "Cross-attention" and memory is not None:
            _draw_memory(ax, memory, (x - WIDTH / 2, y - HEIGHT / 2))
    draw_arrow(ax, (x, y), (x, y + GAP * 2 / 3))
    y += GAP * 2 / 3
    aside = x + WIDTH / 2 + ASIDE
    draw_arrow(ax, (x, start), (aside, start), (aside, y + 0.2), (x + 0.2, y + 0.2),
               label="residual")
    y = draw_sum(ax, x, y)
    for box in branch.after_sum:
        y = _next_box(ax, box, x, y)
    return y


def _draw_parallel(ax, branches, x, y):
    """Branches next to each other: all read x, and one sum adds them to it."""
    start, ends = y + GAP / 3, []
    ax.plot((x, x), (y, start), color=_ink(ax), linewidth=1.2)
    for k, branch in enumerate(branches):
        centre, top = x + (k - (len(branches) - 1) / 2) * (WIDTH + 0.5), start
        ax.plot((x, centre), (start, start), color=_ink(ax), linewidth=1.2)
        for box in branch.boxes:
            top = _next_box(ax, box, centre, top)
        ends.append((centre, top))
    y = max(top for _, top in ends) + GAP
    draw_arrow(ax, (x, start), (x, y), label="residual")
    for centre, top in ends:
        draw_arrow(ax, (centre, top), (centre, y + 0.2), (x + (0.2 if centre > x else -0.2),
                                                          y + 0.2))
    return draw_sum(ax, x, y)


def _draw_memory(ax, memory, end):
    """The arrow from the top of one column to a box of the next."""
    x, y = memory
    between = end[0] - 1.35
    draw_arrow(ax, (x, y), (x, y + GAP), (between, y + GAP), (between, end[1]), end,
               label="memory")


def _next_box(ax, box, x, y, bottom=None):
    """An arrow from y, and a box above it; returns the upper edge of the box."""
    bottom = y + GAP if bottom is None else bottom
    draw_arrow(ax, (x, y), (x, bottom))
    detail = box.detail + (" · " if box.detail and box.parameters else "") + _scaled(box.parameters)
    kind = ("norm" if "Norm" in box.name else "attention" if "attention" in box.name
            else "feedforward" if box.name in ("Feed-forward", "Mixture of experts") else None)
    return draw_box(ax, x, bottom, box.name, detail, kind)


def _scaled(number):
    """A number of parameters in three digits, or nothing for none."""
    for power, letter in ((9, "G"), (6, "M"), (3, "k")):
        if number >= 10 ** power:
            return f"{number / 10 ** power:.3g} {letter}"
    return str(number or "")


def _ink(ax):
    from numformer.plots.axes import colours

    return colours(ax)[0]
