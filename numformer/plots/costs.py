"""Pictures of what things cost: attention by its length, and a model by its parts."""

import numpy as np

from numformer.plots.axes import colours, entitle, panels, styles

QUANTITIES = {                                                        # of an account: what a panel is called, and in which unit
    "parameters": "parameters", "flops": "FLOPs a token, forward", "activations": "bytes a token, kept for the backward",
    "kv_cache": "bytes a token in the KV cache"}


def attention_costs(lengths, milliseconds, bytes_, ax=None, title="Attention by length"):
    """Time and memory against the length T, on logarithmic axes, where a power is a straight line: with all weights, and in tiles.

    Parameters
    ----------
    lengths : sequence of int
        T.
    milliseconds, bytes_ : dict of str to sequence of float
        For each way of computing it, at each length; None where it was not measured.
    ax : matplotlib Axes, optional
        In whose place to draw; a new figure unless given.
    title : str

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If there are no lengths, or not as many numbers.
    """
    for values in (*milliseconds.values(), *bytes_.values()):
        if not len(lengths) or len(values) != len(lengths):
            raise ValueError(f"attention_costs: {len(values)} numbers came for {len(lengths)} lengths; give one for each.")
    axes = panels(ax, 1, 2, (10, 4))[0]
    for panel, curves, label in zip(axes, (milliseconds, bytes_), ("ms, forward and backward", "MiB beside inputs and outputs")):
        unit = 1 if curves is milliseconds else 2 ** 20
        for (name, values), style in zip(curves.items(), styles(panel, len(curves))):
            points = [(T, value / unit) for T, value in zip(lengths, values) if value]
            if points:
                panel.plot(*zip(*points), label=_with_slope(name, points), **style)
        panel.set(xscale="log", yscale="log", xlabel="length T", ylabel=label)
        panel.set_xscale("log", base=2)
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8)
    entitle(ax, axes[0], title)
    return axes[0].figure


def account_bars(rows, ax=None, title="What a model costs, by part"):
    """For each quantity a panel with two bars a part: what a formula says, and, hatched, what was measured.

    Parameters
    ----------
    rows : list of dict
        What `account` returned: ``quantity``, ``part``, ``formula``, ``predicted`` and ``measured``.
    ax : matplotlib Axes, optional
        In whose place to draw; a new figure unless given.
    title : str

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If there are no rows.
    """
    if not rows:
        raise ValueError("account_bars: there are no rows to draw.")
    quantities = list(dict.fromkeys(row["quantity"] for row in rows))
    parts = [[row for row in rows if row["quantity"] == quantity] for quantity in quantities]
    axes = panels(ax, len(parts), 1, (9, 0.9 * len(parts) + 0.42 * len(rows)), height_ratios=[1 + len(each) for each in parts])[:, 0]
    for panel, quantity, its_rows in zip(axes, quantities, parts):
        places = np.arange(len(its_rows))
        for shift, kind, colour, hatch in ((-0.2, "predicted", 0, None), (0.2, "measured", 1, "//")):
            bars = panel.barh(places + shift, [row[kind] for row in its_rows], height=0.36, color=colours(panel)[colour], hatch=hatch,
                              label={"predicted": "formula", "measured": "measured"}[kind])
            panel.bar_label(bars, [f"{row[kind]:,.0f}" for row in its_rows], padding=3, fontsize=7)
        panel.set_yticks(places, [f"{row['part']}\n{row['formula']}" for row in its_rows], fontsize=7)
        panel.invert_yaxis()
        panel.margins(x=0.12)
        panel.set_title(f"{QUANTITIES.get(quantity, quantity)}: {sum(row['measured'] for row in its_rows):,.0f}", fontsize=9)
    axes[0].legend(fontsize=7, loc="lower right")
    entitle(ax, axes[0], title)
    return axes[0].figure


def _with_slope(name, points):
    """A name with the exponent of the last doubling."""
    if len(points) < 2:
        return name
    (t, low), (T, high) = points[-2:]
    return f"{name}: T^{round(np.log(high / low) / np.log(T / t), 1) + 0.0:.1f}"                       # + 0.0: never -0.0
