"""Pictures of rotary positions: every pair of coordinates is a hand of a clock, and scores see only how far two clocks differ."""

import numpy as np

from numformer.checks import check_array, check_even, check_whole
from numformer.functional.positions import rotary, rotary_angles
from numformer.plots.axes import colours, draw_map, entitle, faint, panels


def rotary_clocks(width, positions=8, base=10000.0, ax=None, title="Rotary positions"):
    """Where each of the first positions turns the direction (1, 0): a circle for three fast pairs of coordinates, and the slowest.

    Parameters
    ----------
    width : int
        D, even.
    positions : int
        How many are shown, from 0; each is marked with its number, where there is room.
    base : float
        Of the frequencies; see `rotary_angles`.
    ax : matplotlib Axes, optional
        In whose place to draw; a new figure unless given.
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
    pairs = np.unique((0, width // 16, width // 8, width // 2 - 1))   # of D = 64: a step is 1, 0.32, 0.1 and 0.00013 rad
    axes = panels(ax, 1, len(pairs), (2.5 * len(pairs), 3.1))[0]
    round_ = np.linspace(0, 2 * np.pi, 200)
    for panel, pair in zip(axes, pairs):
        panel.plot(np.cos(round_), np.sin(round_), color=faint(panel), linewidth=0.8)
        named = np.zeros((0, 2))                                      # where numbers stand: one that would cover another is left out
        for t, (x, y) in enumerate(zip(cosine[:, pair], sine[:, pair])):
            panel.plot((0, x), (0, y), color=colours(panel)[0], linewidth=1, marker="o", markersize=3, markevery=[1])
            if not len(named) or np.hypot(*(named - (x, y)).T).min() > 0.2:
                panel.annotate(str(t), (1.16 * x, 1.16 * y), ha="center", va="center", fontsize=7)
                named = np.append(named, [(x, y)], axis=0)
        turn = base ** (-2 * pair / width)
        panel.set(xlim=(-1.4, 1.4), ylim=(-1.4, 1.4), aspect="equal", xticks=[], yticks=[])
        panel.set_title(f"pair {pair}: {turn:.3g} rad a step", fontsize=9)
    entitle(ax, axes[0], title)
    return axes[0].figure


def rotary_proof(q, k, positions=32, base=10000.0, ax=None, title="Scores of one query and one key, wherever they stand"):
    r"""The proof picture: one query and one key at all places m and n; their score is the same wherever m - n is the same.

    .. math:: (R_m q) \cdot (R_n k) = q \cdot (R_{n - m}\, k)

    Parameters
    ----------
    q, k : ndarray, shape (D,)
        float64, so that what differs is rounding.
    positions : int
        m and n run from 0 to this number, without it.
    base : float
    ax : matplotlib Axes, optional
        In whose place to draw; a new figure unless given.
    title : str

    Returns
    -------
    Figure
        On the left the scores, constant along diagonals; on the right all of them against m - n, and by how much those of one distance
        differ at most.

    Raises
    ------
    ValueError, TypeError
        If q and k are no two vectors of floats of the same even width.

    References
    ----------
    Su et al. (2021), "RoFormer", eq. 16.
    """
    D = check_array("rotary_proof", "q", q, "(D,)")["D"]
    check_array("rotary_proof", "k", k, "(D,)", D=D)
    check_even("rotary_proof", "the width of q", D)
    check_whole("rotary_proof", "positions", positions)
    angles = rotary_angles(0, positions, D, base)
    turned = [rotary(np.broadcast_to(x, (positions, D)), *angles)[0] for x in (q, k)]     # (T, D)
    scores = turned[0] @ turned[1].T                                  # (T, T)
    distance = np.subtract.outer(np.arange(positions), np.arange(positions))
    spread = max(np.ptp(np.diagonal(scores, d)) for d in range(1 - positions, positions))

    left, right = panels(ax, 1, 2, (9, 3.9))[0]
    draw_map(left, scores, "score", signed=True, numbers=False)
    left.set(xlabel="n, place of the key", ylabel="m, place of the query", aspect="equal")
    right.plot(distance.ravel(), scores.ravel(), linestyle="none", marker="o", markersize=3, color=colours(right)[0])
    right.set(xlabel="m - n", ylabel="score")
    right.set_title(f"{positions * positions} scores; those of one distance differ by {spread:.0e} at most", fontsize=9)
    right.grid(alpha=0.3)
    entitle(ax, left, title)
    return left.figure
