"""Where the time of a training step goes, by function."""

import numpy as np

from numformer.plots.axes import colours, new_axes, styled
from numformer.plots.tokens import name_ticks, plain

HATCHES = (None, "//", "..", "xx")
SMALLEST = 0.005                        # of a step: less than that is shown with the rest


@styled
def breakdown_bars(breakdowns, ax=None, title="Where the time of a training step goes"):
    """A bar for each function and case, as long as its share of the step, with its milliseconds.

    Parameters
    ----------
    breakdowns : dict of str to dict
        For each case, milliseconds by function; "rest" is what is left, and is drawn last.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    title : str

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If there is nothing to draw.
    """
    if not any(breakdowns.values()):
        raise ValueError("breakdown_bars: breakdowns is empty; there is nothing to draw.")
    totals = {case: sum(times.values()) for case, times in breakdowns.items()}
    share = {}                          # of the case in which a function takes most
    for case, times in breakdowns.items():
        for name, ms in times.items():
            share[name] = max(ms / totals[case], share.get(name, 0.0))
    shown = sorted((name for name in share if name != "rest" and share[name] >= SMALLEST),
                   key=share.get, reverse=True)
    if ax is None:
        ax = new_axes((8, 1.4 + 0.2 * (1 + len(shown)) * (1 + len(breakdowns))))
    y, height = np.arange(1 + len(shown)), 0.8 / len(breakdowns)
    for n, (case, times) in enumerate(breakdowns.items()):
        ms = [times.get(name, 0.0) for name in shown]
        ms.append(totals[case] - sum(ms))
        bars = ax.barh(y + (n + 0.5) * height - 0.4, [100 * x / totals[case] for x in ms],
                       height=0.9 * height, color=colours(ax)[n % 8], hatch=HATCHES[n % 4],
                       label=f"{plain(case)}: {totals[case]:.4g} ms")
        ax.bar_label(bars, [f"{x:.3g} ms" if x else "" for x in ms], padding=3)
    name_ticks(ax.yaxis, y, [*shown, "rest"])
    ax.invert_yaxis()
    ax.margins(x=0.12, y=0.02)
    ax.set(xlabel="percent of the step", title=title)
    ax.legend(loc="center right")               # bars in the middle are short
    return ax
