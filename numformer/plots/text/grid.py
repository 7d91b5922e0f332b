"""A text in cells of one width: letters of any script in the columns of a monospaced font."""

import math
from typing import NamedTuple

from numformer.plots.text.fonts import advance, fonts_of
from numformer.plots.text.labels import label
from numformer.plots.text.letters import is_right_to_left, letters, visual_order

MONOSPACE = {"family": "monospace"}


class Cell(NamedTuple):
    """A letter in one or more columns of a grid; `shown` is to be drawn with parse_math=False."""

    letter: str
    shown: str
    font: dict
    columns: int


def column_width():
    """The width of a column in ems: that of a letter of the monospaced font."""
    from matplotlib.font_manager import FontProperties

    return round(advance(fonts_of(FontProperties(**MONOSPACE))[0], "M"), 3)


def cells_of(text):
    """The letters of a text as cells; those that are wider than a column, as Chinese ones, get two.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of Cell

    Examples
    --------
    >>> [(cell.shown, cell.columns) for cell in cells_of("a\u25a1")]
    [('a', 1), ('□', 1)]
    """
    column, known = column_width(), {}
    for letter in dict.fromkeys(letters(text)):               # marks in the order of the text
        shown, font, width = label(letter, **MONOSPACE)
        known[letter] = Cell(letter, shown, font, max(1, math.ceil(width / column - 0.15)))
    return [known[letter] for letter in letters(text)]


def columns_of(text):
    """The number of columns of a text."""
    return sum(cell.columns for cell in cells_of(text))


def in_order(cells, right_to_left=None):
    """[(column, number of the cell)] of one line, from left to right as it is read on paper.

    Parameters
    ----------
    cells : list of Cell
    right_to_left : bool, optional
        The direction of the line; that of its first letter that has one by default.
    """
    places, column = [], 0
    for number in visual_order([cell.letter for cell in cells], right_to_left):
        places.append((column, number))
        column += cells[number].columns
    return places


def runs_right_to_left(cells):
    """Whether a paragraph of cells begins with a letter that is read from right to left."""
    return is_right_to_left([cell.letter for cell in cells])
