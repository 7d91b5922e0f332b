"""Sinusoidal positions as curves: one pair of coordinates over positions, one position over pairs.
"""

import numpy as np

from numformer.checks import check_whole
from numformer.functional import sinusoidal_positions
from numformer.plots.axes import WIDTH, colours, entitle, panels, styled


@styled
def position_waves(width=128, pairs=(0, 1, 50), positions=(1, 2, 50), last=50, ax=None,
                   title="Sinusoidal positions"):
    r"""Above, the sine and cosine of pairs i over positions; below, positions over coordinates.

    .. math:: P_{t, 2i} = \sin(t\, \omega_i), \qquad P_{t, 2i+1} = \cos(t\, \omega_i), \qquad
              \omega_i = 10000^{-2i/C}

    Parameters
    ----------
    width : int
        C.
    pairs : tuple of int
        The numbers i, each below C / 2.
    positions : tuple of int
        The positions t of the lower row, as many as pairs.
    last : int
        The last position of the upper row.
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If a pair is out of range, or there are not as many positions as pairs.
    """
    check_whole("position_waves", "width", width)
    check_whole("position_waves", "last", last)
    for i in pairs:
        check_whole("position_waves", "pairs", i, least=0)
        if 2 * i + 1 >= width:
            raise ValueError(f"position_waves: pair {i} is out of range; width={width} has the "
                             f"pairs 0 to {width // 2 - 1}.")
    if len(pairs) != len(positions) or not pairs:
        raise ValueError(f"position_waves: {len(pairs)} pairs and {len(positions)} positions came; "
                         "give as many of both, and at least one.")
    axes = panels(ax, 2, len(pairs), (WIDTH, 6.4))
    t = np.linspace(0, last, 20 * last + 1)
    curves, table = sinusoidal_positions(t, width), sinusoidal_positions(positions, width)
    for panel, i in zip(axes[0], pairs):
        sine, cosine = colours(panel)[:2]
        panel.plot(t, curves[:, 2 * i], color=sine, linewidth=1.2)
        panel.plot(t, curves[:, 2 * i + 1], "--", color=cosine, linewidth=1.2)
        panel.set_title(f"pair {i}")
        panel.set_xlabel("position")
        panel.set_ylim(-1.15, 1.15)
        panel.set_yticks((-1, 0, 1))
    for panel, position, vector in zip(axes[1], positions, table):
        sine, cosine = colours(panel)[:2]
        even = np.arange(0, width, 2)
        panel.plot(even, vector[0::2], color=sine, marker="o", markersize=3, linewidth=1.2,
                   label="sine (even coordinates)")
        panel.plot(even + 1, vector[1::2], "--", color=cosine, marker="s", markersize=3,
                   linewidth=1.2, label="cosine (odd)")
        panel.set_title(f"position {position}")
        panel.set_xlabel("coordinate")
        panel.set_ylim(-1.15, 1.15)
        panel.set_yticks((-1, 0, 1))
    for panel in axes.flat:
        panel.grid(alpha=0.3)
    for row in axes:
        row[0].set_ylabel("value")
    axes[0, 0].figure.legend(*axes[1, 0].get_legend_handles_labels(), ncols=2, frameon=False,
                             loc="outside lower center")
    entitle(ax, axes[0, 0], title)
    return axes[0, 0].figure
