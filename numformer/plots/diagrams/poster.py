"""A poster: a whole model, one of its blocks with all parts, and the equations of its functions."""

import re
from functools import lru_cache

from numformer import functional
from numformer.analysis import architecture
from numformer.description import Stack
from numformer.docstrings import docstring, formulas
from numformer.plots.axes import is_dark, new_figure, styled
from numformer.plots.diagrams.architecture import architecture_diagram
from numformer.plots.diagrams.ink import DARK, LIGHT

SHEET = 33.1, 23.4                                                    # inches: A1
TOP, BOTTOM = 2.2, 1.6                                                # above and below all
MODEL, BLOCK, COLUMN = (0.4, 12.4), (12.8, 25.0), 25.6                # from left to right
POINTS, BETWEEN, APART = 20, 0.16, 0.4                # of equations; inches between them
# what matplotlib writes in another way
OTHERWISE = ((r"\\textstyle\s*", ""), (r"\\sqrt\s*(\w)", r"\\sqrt{\1}"), (r"\\Big", ""),
             (r"\\tfrac(\d)(\d)", r"\\frac{\1}{\2}"), (r"\\frac", r"\\dfrac"))
LEGEND = ("Black: forward. Orange: backward, with $dx$ or $\\bar{x}$ for the gradient of the loss "
          "with respect to $x$. Blue: shapes, B sequences at a time; numbers of parameters. "
          "Grey: the page of numformer that computes it.")


@styled
def poster(model, title, block=None):
    """Draw a model on a sheet of 33.1 x 23.4 inches, A1, for the wall of a classroom.

    On the left the whole model, in the middle one block with all its parts, both with shapes,
    forward and backward; on the right the equations of the functions that they compute, from the
    docstrings of `numformer.functional`.

    Parameters
    ----------
    model : Layer, or its config
        A model with blocks that `architecture_diagram` can draw.
    title : str
    block : int, optional
        The block in the middle; by default the last.

    Returns
    -------
    matplotlib Figure

    Raises
    ------
    TypeError
        If the architecture of the model cannot be read.
    ValueError
        If the model has no such block.

    Examples
    --------
    >>> from numformer.models import CONFIGS
    >>> poster(CONFIGS["gpt2"], "GPT-2").get_size_inches().tolist()
    [33.1, 23.4]
    """
    found = architecture(model)
    if block is None:
        block = sum(part.repeat for column in found.columns for part in column.parts
                    if isinstance(part, Stack))
        if not block:
            raise ValueError("poster: the model has no blocks; draw its architecture_diagram.")
    figure = new_figure(SHEET, layout=None)
    sheet = _axes(figure, (0, SHEET[0]), 0, SHEET[1])
    sheet.set(xlim=(0, SHEET[0]), ylim=(0, SHEET[1]))
    palette = DARK if is_dark(sheet) else LIGHT
    sheet.text(SHEET[0] / 2, SHEET[1] - 0.9, title, ha="center", va="center", fontsize=54,
               fontweight="bold", color=palette.ink)
    architecture_diagram(found, _axes(figure, MODEL, BOTTOM, SHEET[1] - TOP), backward=True)
    architecture_diagram(model, _axes(figure, BLOCK, BOTTOM, SHEET[1] - TOP), title, True, block)
    _write(sheet, equations_of(getattr(model, "config", model)), palette)
    sheet.text(SHEET[0] / 2, 0.7, LEGEND, fontsize=POINTS, color=palette.ink, ha="center",
               va="center")
    return figure


def equations_of(config):
    """The equations, forward and backward, of the functions that a model of a config computes.

    Examples
    --------
    >>> from numformer.models import CONFIGS
    >>> [name for name, forward, backward in equations_of(CONFIGS["llama-7b"])][-3:]
    ['rms_norm', 'gated_linear_unit', 'softmax_cross_entropy']
    """
    positions, norm, feedforward = (getattr(config, name, "")
                                    for name in ("positions", "norm", "feedforward"))
    gate, found = functional.GATED.get(feedforward), []
    for name in ("embedding", positions, f"{positions}_positions", "linear", "attention", "softmax",
                 norm, *(("gated_linear_unit", gate) if gate else (feedforward,)),
                 "softmax_cross_entropy"):
        forward, backward = ([*_formulas(getattr(functional, each, None))]
                             for each in (name, f"{name}_backward"))
        if forward or backward:
            found.append((name, forward, backward))
    return found


def _formulas(function):
    r"""The formulas of a docstring, each a line; but those of matrices, which matplotlib lacks.

    Examples
    --------
    >>> [*_formulas(functional.linear_backward)][0]
    '\\bar{x} = \\bar{y} W^\\top'
    """
    for lines in formulas(docstring(function)) if function else ():
        for pattern, other in OTHERWISE:
            lines = re.sub(pattern, other, lines)
        for line in lines.split(r"\qquad"):
            if line.strip() and r"\begin" not in line:
                yield line.strip().rstrip(",")


def _axes(figure, across, bottom, top):
    """Axes without ticks at a place in inches: (left, right), bottom and top."""
    width, height = SHEET
    axes = figure.add_axes((across[0] / width, bottom / height, (across[1] - across[0]) / width,
                            (top - bottom) / height))
    axes.set_axis_off()
    return axes


def _write(sheet, equations, palette):
    """Write equations from the top of the right column on, as large as there is room."""
    lines = []                                                        # (text, colour, indent)
    for name, forward, backward in equations:
        lines.append((f"functional.{name}", palette.blue, 0.0))
        lines += [(f"${line}$", palette.ink, 0.4) for line in forward]
        lines += [(f"${line}$", palette.orange, 0.4) for line in backward]
    y = SHEET[1] - TOP
    needed = sum(_tall(text) + BETWEEN + (not indent) * APART for text, _, indent in lines)
    scale = min(1.0, (y - BOTTOM) / needed)
    for text, colour, indent in lines:
        y -= scale * (_tall(text) + BETWEEN + (not indent) * APART)
        sheet.text(COLUMN + indent, y + scale * _tall(text) / 2, text, fontsize=POINTS * scale,
                   color=colour, va="center", fontweight="normal" if indent else "bold")


@lru_cache(maxsize=None)
def _tall(text):
    """Inches from the lowest to the highest ink of a text."""
    from matplotlib.textpath import TextPath

    return float(TextPath((0, 0), text, size=POINTS).get_extents().height) / 72
