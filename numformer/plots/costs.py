"""Costs: attention by sequence length, and a model by its parts."""

import re

import numpy as np

from numformer.analysis.costs import model_costs
from numformer.models import DecoderConfig
from numformer.plots.axes import (
    cell_inches, colours, entitle, in_slides, legend_below, panels, styled, styles, text_inches)
from numformer.plots.pictures import picture_of_run
from numformer.plots.tokens import plain

LEAST = 0.04                                          # share of a rectangle
TINTS = (0, 1, 5, 2)                                  # of `colours`

# of `model_costs`: the title of a panel, with the unit
QUANTITIES = {"parameters": "parameters", "flops": "FLOPs per token",
              "activations": "saved bytes per token",
              "kv_cache": "cached bytes per token"}


@styled
def attention_costs(lengths, milliseconds, bytes_, ax=None, title="Attention by sequence length"):
    """Time and memory against sequence length, on logarithmic axes: a power law is a straight line.

    Two dotted lines grow as T and as T² and end where the first curve does. Short lengths are
    mostly overhead, which is flatter; where arrays no longer fit into a cache, time is steeper.

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
    axes = panels(ax, *((1, 2) if in_slides() else (2, 1)), (8, 8)).ravel()
    for panel, curves, label in zip(axes, (milliseconds, bytes_),
                                    ("ms, forward and backward", "MiB in addition to q, k, v")):
        unit = 1 if curves is milliseconds else 2 ** 20
        for (name, values), style in zip(curves.items(), styles(panel, len(curves))):
            points = [(T, value / unit) for T, value in zip(lengths, values) if value]
            if points:
                panel.plot(*zip(*points), label=plain(name), **style)
        for T, value in [line.get_xydata()[-1] for line in panel.lines[:1]]:
            for power, name in ((1, "as T"), (2, "as T²")):
                panel.plot(lengths, value * (np.array(lengths) / T) ** power, ":", color="0.5",
                           alpha=0.5 * power, label=name)
        panel.set(xscale="log", yscale="log", xlabel="sequence length T", ylabel=label)
        panel.set_xscale("log", base=2)
        panel.grid(alpha=0.3)
        legend_below(panel, 1) if in_slides() else panel.legend()
    entitle(ax, axes[0], title)
    return axes[0].figure


@styled
def cost_treemap(rows, ax=None, title="Costs of a model by part"):
    """A panel for each quantity, with a rectangle for each part: its area is the measured share.

    Each names its part, its number and the formula; parts that are too small are listed below. The
    title of a panel holds the sum, and that of the formulas where it is another.

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

    Examples
    --------
    >>> row = {"quantity": "parameters", "formula": "C V", "predicted": 6, "measured": 6}
    >>> figure = cost_treemap([{**row, "part": "embedding"}])
    >>> figure.axes[0].get_title()
    'parameters: 6'
    """
    if not rows:
        raise ValueError("cost_treemap: rows is empty; there is nothing to draw.")
    quantities = list(dict.fromkeys(row["quantity"] for row in rows))
    columns = min(2, len(quantities))
    axes = panels(ax, -(-len(quantities) // columns), columns,
                  (8, 0.5 + 3.6 * -(-len(quantities) // columns)))
    for panel, quantity in zip(axes.flat, quantities):
        its_rows = sorted((row for row in rows if row["quantity"] == quantity),
                          key=lambda row: -row["measured"])
        total, formula = (sum(row[kind] for row in its_rows) for kind in ("measured", "predicted"))
        panel.set_title(f"{QUANTITIES.get(quantity, quantity)}: {total:,.0f}"
                        + (f"\n(formulas: {formula:,.0f})" if formula != total else ""))
        large = [row for row in its_rows if row["measured"] >= LEAST * total]
        small = its_rows[len(large):]
        shares = [row["measured"] / max(total, 1) for row in large]
        for n, (row, place) in enumerate(zip(large, _rectangles(shares))):
            if not _draw_part(panel, row, total, place, colours(panel)[TINTS[n % 4]]):
                small.insert(0, row)
        small = [f"{row['part']} {100 * row['measured'] / max(total, 1):.1f}%" for row in small]
        panel.set(xlim=(0, 1), ylim=(1, 0), xticks=[], yticks=[], xlabel=", ".join(small))
        panel.set_frame_on(False)
    for unused in axes.flat[len(quantities):]:
        unused.remove()
    entitle(ax, axes[0, 0], title)
    return axes[0, 0].figure


def _rectangles(shares):
    """(x, y, width, height) of areas that fill the unit square, each cut off the longer side."""
    left, top, wide, tall, rest, found = 0.0, 0.0, 1.0, 1.0, sum(shares) or 1.0, []
    for share in shares:
        part = share / rest if rest > 0 else 0.0
        if tall >= wide:
            found.append((left, top, wide, tall * part))
            top, tall = top + tall * part, tall * (1 - part)
        else:
            found.append((left, top, wide * part, tall))
            left, wide = left + wide * part, wide * (1 - part)
        rest -= share
    return found


def _draw_part(ax, row, total, place, colour):
    """A rectangle, and as much of name, number and formula as it has space for.

    Return whether the name had space.
    """
    from matplotlib.patches import Rectangle

    x, y, width, height = place
    ax.add_patch(Rectangle((x, y), width, height, facecolor=colour, alpha=0.28, linewidth=0))
    ax.add_patch(Rectangle((x, y), width, height, facecolor="none", edgecolor=ax.get_facecolor(),
                           linewidth=3))
    wide, tall = cell_inches(ax, 1 / width, 1 / height)
    columns = int(wide / (0.58 * text_inches()))
    if len(row["part"]) > columns:
        return False
    lines = [row["part"], f"{row['measured']:,.0f} ({100 * row['measured'] / max(total, 1):.0f}%)"]
    most, formula = max(1, int(tall / (1.3 * text_inches()))), _lines_of(row["formula"], columns)
    lines = lines[:most] if len(lines + formula) > most else lines + formula
    ax.text(x + width / 2, y + height / 2,
            "\n".join(line for line in lines if len(line) <= columns + 3),
            ha="center", va="center")
    return True


def _lines_of(formula, columns):
    """A formula in lines that begin with a sum's sign; none where a part is longer than a line.

    Examples
    --------
    >>> _lines_of("L (4 C² + 2 C (T + 1))", 12)
    ['L (4 C²', '+ 2 C (T + 1))']
    >>> _lines_of("9 (C + 3)", 9), _lines_of("9 (C + 3)", 5)
    (['9 (C + 3)'], [])
    """
    lines = []
    for part in re.split(r" (?=\+ (?!\d\)))", formula):              # "+ 1)" stays with its term
        if lines and len(f"{lines[-1]} {part}") <= columns:
            lines[-1] += f" {part}"
        else:
            lines.append(part)
    return lines if max(map(len, lines)) <= columns + 2 else []


@picture_of_run("costs")
def _costs(run):
    """Parameters, FLOPs, activations and KV cache by part, predicted and measured."""
    if not isinstance(run.model.config, DecoderConfig):
        raise ValueError("costs by part are known for a Decoder, not for "
                         f"{type(run.model).__name__}.")
    return cost_treemap(model_costs(run.model.config))
