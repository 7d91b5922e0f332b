"""Rotary positions: each pair of coordinates rotates at its own rate, and scores depend on the
distance of two positions alone.
"""

import numpy as np

from numformer.checks import check_array, check_even, check_whole
from numformer.functional.positions.rotary import rotary, rotary_angles
from numformer.plots.axes import (
    WIDTH, colours, draw_map, entitle, faint, in_slides, new_axes, panels, styled)

CLOCKS = (6, 6.4)                                     # inches
TRAIL = 5                                             # earlier hands of the animation


@styled
def rotary_clocks(width, positions=8, base=10000.0, ax=None, title="Rotary positions"):
    """How the first positions rotate the vector (1, 0): three fast coordinate pairs and the
    slowest.

    Parameters
    ----------
    width : int
        D, even.
    positions : int
        How many to show, from 0; each is labelled with its number where there is space.
    base : float
        Base of the frequencies; see `rotary_angles`.
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If the width is odd, or there are no positions.

    References
    ----------
    Su et al. (2021), "RoFormer", figure 1.
    """
    check_even("rotary_clocks", "width", width)
    check_whole("rotary_clocks", "positions", positions)
    cosine, sine = rotary_angles(0, positions, width, base)           # (T, D/2)
    axes, pairs = _clock_panels(ax, width, base)
    for panel, pair in zip(axes, pairs):
        labelled = np.zeros((0, 2))                   # a label that would cover another is left out
        for t, (x, y) in enumerate(zip(cosine[:, pair], sine[:, pair])):
            panel.plot((0, x), (0, y), color=colours(panel)[0], linewidth=2, marker="o",
                       markersize=6, markevery=[1])
            if not len(labelled) or np.hypot(*(labelled - (x, y)).T).min() > 0.24:
                panel.annotate(str(t), (1.2 * x, 1.2 * y), ha="center", va="center")
                labelled = np.append(labelled, [(x, y)], axis=0)
    entitle(ax, axes[0], title)
    return axes[0].figure


def rotary_animation(width, positions=24, base=10000.0, seconds=0.4):
    """The clocks of `rotary_clocks` as an animation: a frame per position, with its last hands.

    ``.save(path, writer="pillow")`` writes an animated GIF.

    Parameters
    ----------
    width : int
        D, even.
    positions : int
        How many frames.
    base : float
        Base of the frequencies; see `rotary_angles`.
    seconds : float
        Duration of each frame.

    Returns
    -------
    matplotlib.animation.FuncAnimation

    Raises
    ------
    ValueError
        If the width is odd, or there are no positions.
    """
    from matplotlib.animation import FuncAnimation

    check_even("rotary_animation", "width", width)
    check_whole("rotary_animation", "positions", positions)
    cosine, sine = rotary_angles(0, positions, width, base)           # (T, D/2)
    figure = new_axes(CLOCKS).figure

    @styled
    def draw(number):
        figure.clear()
        axes, pairs = _clock_panels(figure.add_subplot(), width, base)
        for panel, pair in zip(axes, pairs):
            for t in range(max(0, number - TRAIL), number + 1):
                now = t == number
                panel.plot((0, cosine[t, pair]), (0, sine[t, pair]), marker="o", markevery=[1],
                           color=colours(panel)[1 if now else 0], zorder=2 + now,
                           alpha=1 if now else 0.75 - 0.6 * (number - t) / TRAIL,
                           linewidth=3 if now else 1.5, markersize=7 if now else 4)
        figure.suptitle(f"Rotary positions: position {number}")
        return figure.axes

    return FuncAnimation(figure, draw, frames=positions, interval=1000 * seconds, init_func=list)


def _clock_panels(ax, width, base):
    """Panels with a circle for three fast pairs of coordinates and the slowest, and the pairs."""
    # D = 64: 1, 0.32, 0.1, 0.00013 rad per step
    pairs = np.unique((0, width // 16, width // 8, width // 2 - 1))
    columns = len(pairs) if in_slides() else min(2, len(pairs))
    axes = panels(ax, -(-len(pairs) // columns), columns, CLOCKS)
    for unused in axes.flat[len(pairs):]:
        unused.remove()
    axes = axes.ravel()[:len(pairs)]
    circle = np.linspace(0, 2 * np.pi, 200)
    for panel, pair in zip(axes, pairs):
        panel.plot(np.cos(circle), np.sin(circle), color=faint(panel), linewidth=1)
        step = base ** (-2 * pair / width)
        panel.set(xlim=(-1.4, 1.4), ylim=(-1.4, 1.4), aspect="equal", xticks=[], yticks=[])
        panel.set_frame_on(False)
        panel.set_title(f"pair {pair}:\n{step:.3g} rad per step")
    return axes, pairs


@styled
def rotary_proof(q, k, positions=32, base=10000.0, ax=None,
                 title="Rotary scores depend on the distance alone"):
    r"""One query and one key at all positions m and n: their score depends on m - n alone.

    .. math:: (R_m q) \cdot (R_n k) = q \cdot (R_{n - m}\, k)

    Parameters
    ----------
    q, k : ndarray, shape (D,)
        float64, so that differences are rounding errors.
    positions : int
        m and n are 0, ..., positions - 1.
    base : float
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str

    Returns
    -------
    Figure
        Left: the scores, constant along diagonals. Right: all scores against m - n, and the largest
        difference between two scores of one distance.

    Raises
    ------
    ValueError, TypeError
        If q and k are not two vectors of floats of the same even width.

    References
    ----------
    Su et al. (2021), "RoFormer", eq. 16.
    """
    D = check_array("rotary_proof", "q", q, "(D,)")["D"]
    check_array("rotary_proof", "k", k, "(D,)", D=D)
    check_even("rotary_proof", "the width of q", D)
    check_whole("rotary_proof", "positions", positions)
    angles = rotary_angles(0, positions, D, base)
    rotated = [rotary(np.broadcast_to(x, (positions, D)), *angles)[0] for x in (q, k)]     # (T, D)
    scores = rotated[0] @ rotated[1].T                                  # (T, T)
    distance = np.subtract.outer(np.arange(positions), np.arange(positions))
    spread = max(np.ptp(np.diagonal(scores, d)) for d in range(1 - positions, positions))

    left, right = panels(ax, 1, 2, (WIDTH, 3.8))[0]
    draw_map(left, scores, "score", signed=True, numbers=False)
    left.set(xlabel="n, position of the key", ylabel="m, position of the query", aspect="equal")
    right.plot(distance.ravel(), scores.ravel(), linestyle="none", marker="o", markersize=3,
               color=colours(right)[0])
    right.set(xlabel="m - n", ylabel="score")
    right.set_title(f"{positions * positions} scores; at equal distance\nthey differ by at most "
                    f"{spread:.0e}", fontsize="medium")
    right.grid(alpha=0.3)
    entitle(ax, left, title)
    return left.figure
