"""Costs: attention by sequence length, and a model by its parts."""

import numpy as np

from numformer.plots.axes import colours, entitle, panels, styles

# of `model_costs`: the title of a panel, with the unit
QUANTITIES = {"parameters": "parameters", "flops": "FLOPs per token, forward",
              "activations": "bytes per token, saved for the backward",
              "kv_cache": "bytes per token in the KV cache"}


def attention_costs(lengths, milliseconds, bytes_, ax=None, title="Attention by sequence length"):
    """Time and memory against sequence length, on logarithmic axes: a power law is a straight line.

    Parameters
    ----------
    lengths : sequence of int
        T.
    milliseconds, bytes_ : dict of str to sequence of float
        For each implementation, at each length; None where it was not measured.
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
    title : str

    Returns
    -------
    Figure

    Raises
    ------
    ValueError
        If there are no lengths, or another number of measurements.
    """
    for values in (*milliseconds.values(), *bytes_.values()):
        if not len(lengths) or len(values) != len(lengths):
            raise ValueError(f"attention_costs: {len(values)} numbers for {len(lengths)} lengths; "
                             "give one for each.")
    axes = panels(ax, 1, 2, (10, 4))[0]
    for panel, curves, label in zip(axes, (milliseconds, bytes_),
                                    ("ms, forward and backward", "MiB besides inputs and outputs")):
        unit = 1 if curves is milliseconds else 2 ** 20
        for (name, values), style in zip(curves.items(), styles(panel, len(curves))):
            points = [(T, value / unit) for T, value in zip(lengths, values) if value]
            if points:
                panel.plot(*zip(*points), label=_with_slope(name, points), **style)
        panel.set(xscale="log", yscale="log", xlabel="sequence length T", ylabel=label)
        panel.set_xscale("log", base=2)
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8)
    entitle(ax, axes[0], title)
    return axes[0].figure


def cost_bars(rows, ax=None, title="Costs of a model by part"):
    """A panel for each quantity, with two bars per part: predicted by a formula, and measured.

    Parameters
    ----------
    rows : list of dict
        From `model_costs`: ``quantity``, ``part``, ``formula``, ``predicted`` and ``measured``.
    ax : matplotlib Axes, optional
        Axes that the panels replace; a new figure by default.
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
        raise ValueError("cost_bars: rows is empty; there is nothing to draw.")
    quantities = list(dict.fromkeys(row["quantity"] for row in rows))
    parts = [[row for row in rows if row["quantity"] == quantity] for quantity in quantities]
    axes = panels(ax, len(parts), 1, (9, 0.9 * len(parts) + 0.42 * len(rows)),
                  height_ratios=[1 + len(each) for each in parts])[:, 0]
    for panel, quantity, its_rows in zip(axes, quantities, parts):
        y = np.arange(len(its_rows))
        for offset, kind, colour, hatch in ((-0.2, "predicted", 0, None),
                                            (0.2, "measured", 1, "//")):
            bars = panel.barh(y + offset, [row[kind] for row in its_rows], height=0.36,
                              color=colours(panel)[colour], hatch=hatch,
                              label={"predicted": "formula", "measured": "measured"}[kind])
            panel.bar_label(bars, [f"{row[kind]:,.0f}" for row in its_rows], padding=3, fontsize=7)
        panel.set_yticks(y, [f"{row['part']}\n{row['formula']}" for row in its_rows], fontsize=7)
        panel.invert_yaxis()
        panel.margins(x=0.12)
        panel.set_title(f"{QUANTITIES.get(quantity, quantity)}: "
                        f"{sum(row['measured'] for row in its_rows):,.0f}", fontsize=9)
    axes[0].legend(fontsize=7, loc="lower right")
    entitle(ax, axes[0], title)
    return axes[0].figure


def _with_slope(name, points):
    """A name with the exponent between the last two points."""
    if len(points) < 2:
        return name
    (t, low), (T, high) = points[-2:]
    # + 0.0: never -0.0
    return f"{name}: T^{round(np.log(high / low) / np.log(T / t), 1) + 0.0:.1f}"
