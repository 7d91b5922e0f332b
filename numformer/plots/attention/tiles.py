"""Tiled attention step by step: the order of the tiles, skipped tiles, and the running state."""

import numpy as np

from numformer.checks import check_whole
from numformer.plots.axes import (
    SLIDE, WIDTH, colours, hatch_cells, in_slides, new_axes, new_figure, panels, readable_on,
    sequential, styled)

MEANING = ("m: largest score so far\n"
           "α: factor of earlier sums, exp(old m - m)\n"
           "l: sum of exp(score - m)\n"
           "acc: sum of exp(score - m) v")


@styled
def tile_order(steps, ax=None, title="Order of the tiles"):
    """All tiles of the T x S scores, numbered in processing order; skipped ones are hatched.

    Below the number: how many queries of the tile found a new maximum, which rescales their partial
    sums.

    Parameters
    ----------
    steps : list of TileStep
        From `tiled_attention_steps`.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If there are no steps.
    """
    T, S = _sizes("tile_order", steps)
    ax = new_axes((8, 6.4)) if ax is None else ax
    order, number, texts = np.full((T, S), np.nan), 0, []
    for step in steps:
        if not step.skipped:
            number += 1
            order[step.rows, step.keys] = number
            rescaled = int(_rescaled(step).sum())
            words = f"{number}\nrescaled: {rescaled}" if rescaled else str(number)
            texts.append((*_middle(step), words, number))
    image = ax.imshow(order, cmap=sequential(ax), interpolation="nearest", aspect="auto",
                      vmin=-0.3 * len(steps), vmax=max(2, len(steps)))
    for x, y, words, number in texts:
        ax.text(x, y, words, ha="center", va="center", color=readable_on(image, number))
    _frame(ax, steps, T, S)
    ax.set(title=title)
    return ax


@styled
def tile_frame(steps, number, ax=None, title=None):
    """The state after one step: tiles processed so far, and the running numbers of the queries.

    Parameters
    ----------
    steps : list of TileStep
    number : int
        Which step, from 0.
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str, optional

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If there are no steps, or no step of that number.
    """
    _sizes("tile_frame", steps)
    check_whole("tile_frame", "number", number, least=0)
    if number >= len(steps):
        raise ValueError(f"tile_frame: number={number} must be one of the {len(steps)} steps, "
                         "counted from 0.")
    return _draw_frame(steps, number, ax, title, MEANING)


@styled
def _draw_frame(steps, number, ax, title, meaning):
    """A frame; below its numbers, what they mean."""
    (T, S), step = _sizes("tile_frame", steps), steps[number]
    I, D = step.acc.shape[2:]
    left, right = panels(ax, 1, 2, (WIDTH, 3.6), width_ratios=(3.1, 3 + 0.6 * D))[0]

    state = np.zeros((T, S))
    for seen in steps[:number]:
        state[seen.rows, seen.keys] = 0 if seen.skipped else 1
    state[step.rows, step.keys] = 0 if step.skipped else 2
    image = left.imshow(state, cmap=sequential(left), vmin=0, vmax=2, interpolation="nearest",
                        aspect="auto")
    _frame(left, steps, T, S, skipped=steps[:number + 1])
    left.text(*_middle(step), "skipped" if step.skipped else "now", ha="center", va="center",
              color=colours(left)[4] if step.skipped else readable_on(image, 2))
    left.set(xlim=(-0.5, S - 0.5), ylim=(T - 0.5, -0.5))

    names = ["query", "m", "α", "l", *(f"acc {d}" for d in range(D))]
    right.set(xlim=(-0.5, len(names) - 0.5), ylim=(I + (2.2 if meaning else 0.5), -0.7))
    right.axis("off")
    for column, name in enumerate(names):
        right.text(column, 0, name, ha="center", va="center", fontweight="bold")
    for i, rescaled in enumerate(_rescaled(step)):
        values = (step.m[0, 0, i, 0], step.alpha[0, 0, i, 0], step.l[0, 0, i, 0],
                  *step.acc[0, 0, i])
        for column, text in enumerate((str(step.rows.start + i),
                                       *(f"{value:.3g}" for value in values))):
            right.text(column, i + 1, text, ha="center", va="center",
                       fontweight="bold" if rescaled else "normal")
    right.text(-0.4, I + 1, meaning, va="top", ha="left", linespacing=1.5)
    left.figure.suptitle(title or f"Step {number + 1} of {len(steps)}: queries {step.rows.start} "
                         f"to {step.rows.stop - 1}, keys {step.keys.start} to "
                         f"{step.keys.stop - 1}{', skipped' if step.skipped else ''}")
    return left.figure


@styled
def tile_frames(steps, chosen=None, title="Tiled attention"):
    """Several steps below each other, each as in `tile_frame`.

    Parameters
    ----------
    steps : list of TileStep
    chosen : sequence of int, optional
        Which steps; all by default.
    title : str

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        As `tile_frame`; or if chosen is empty.
    """
    _sizes("tile_frames", steps)
    chosen = range(len(steps)) if chosen is None else list(chosen)
    if not len(chosen):
        raise ValueError("tile_frames: chosen is empty; give at least one step.")
    size = SLIDE if in_slides() else (WIDTH, 1.0 + 3.1 * len(chosen))
    figure = new_figure(size)
    for part, number in zip(np.atleast_1d(figure.subfigures(len(chosen), 1)), chosen):
        if not 0 <= number < len(steps):
            tile_frame(steps, number)                                 # raises
        _draw_frame(steps, number, part.add_subplot(), None, "")
    figure.suptitle(title)
    half = MEANING.split("\n")
    figure.supxlabel("\n".join(";  ".join(half[k:k + 2]) for k in (0, 2)), fontsize="medium")
    return figure


def tile_animation(steps, seconds=0.8):
    """All steps as an animation; ``.save(path, writer="pillow")`` writes an animated GIF.

    Parameters
    ----------
    steps : list of TileStep
    seconds : float
        Duration of each step.

    Returns
    -------
    matplotlib.animation.FuncAnimation

    Raises
    ------
    ValueError
        If there are no steps.
    """
    from matplotlib.animation import FuncAnimation

    _sizes("tile_animation", steps)
    figure = new_axes((WIDTH, 3.8)).figure

    @styled
    def draw(number):
        figure.clear()
        tile_frame(steps, number, ax=figure.add_subplot())
        return figure.axes

    return FuncAnimation(figure, draw, frames=len(steps), interval=1000 * seconds,
                         repeat_delay=2000, init_func=list)


def _sizes(owner, steps):
    """T and S of the full scores."""
    if not steps:
        raise ValueError(f"{owner}: steps is empty; there is nothing to draw.")
    return max(step.rows.stop for step in steps), max(step.keys.stop for step in steps)


def _rescaled(step):
    """Whether each query of the first head rescales its sum; alpha is 0 before the first key."""
    alpha = step.alpha[0, 0, :, 0]
    return (0 < alpha) & (alpha < 1)


def _middle(step):
    return (step.keys.start + step.keys.stop - 1) / 2, (step.rows.start + step.rows.stop - 1) / 2


def _frame(ax, steps, T, S, skipped=None):
    """Lines between tiles, hatches over those that were skipped, and labels."""
    hatched = np.zeros((T, S), bool)
    for step in steps if skipped is None else skipped:
        hatched[step.rows, step.keys] = step.skipped
    hatch_cells(ax, hatched)
    ax.set_xticks(sorted({step.keys.start - 0.5 for step in steps} | {S - 0.5}), [])
    ax.set_yticks(sorted({step.rows.start - 0.5 for step in steps} | {T - 0.5}), [])
    ax.grid(color=colours(ax)[7], linewidth=1)
    ax.tick_params(length=0)
    ax.set(xlabel="keys", ylabel="queries")
