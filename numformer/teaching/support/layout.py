"""How texts for students are set: lines of 80 columns, four digits, and a box in a notebook."""

import html
import re
from textwrap import wrap

from numformer.terminal import printable

COLUMNS, DIGITS, MOST_DIGITS = 80, 4, 17
PAIR = re.compile(r"\bfound (\S+), reference ([^\s,]+?)(?=[,.]? )")
SINGLE = re.compile(r"(?<=is )-?[\d.e+-]+(?= times)|(?<=and )-?[\d.e+-]+(?= times)"
                    r"|(?<=reference is )-?\d[\d.e+-]*\d(?=\.)")
BOX = ('<div style="border: 1px solid {color}; border-left: 6px solid {color}; margin: 0.3em 0; '
       'padding: 0.4em 0.8em; max-width: 46em; white-space: pre-wrap; overflow-wrap: anywhere">'
       "<strong>{head}</strong>\n{text}</div>")


class Note(str):
    """A text that Python's prompt and `print` show wrapped, and a notebook as a box.

    Examples
    --------
    >>> Note("Begin with zeros.")
    Begin with zeros.
    """

    def __repr__(self):
        return wrapped(self)

    def __str__(self):
        return wrapped(self)

    def _repr_html_(self):
        return box("Note", "#5b7fa6", self)


def brief(text):
    """A text whose pairs of numbers have four significant digits, or more where they look equal.

    Examples
    --------
    >>> brief("first at (0, 1): found 0.1234567891, reference -2.5, relative error 1.2")
    'first at (0, 1): found 0.1235, reference -2.5, relative error 1.2'
    >>> brief("found 1.0000012, reference 1, relative error 1.2e-06")
    'found 1.000001, reference 1, relative error 1.2e-06'
    """
    text = PAIR.sub(lambda pair: "found {}, reference {}".format(*_two_numbers(*pair.groups())),
                    text)
    return SINGLE.sub(lambda number: _shown(number[0], DIGITS), text)


def wrapped(text, indent="", head=None):
    """A text with four digits a number, in lines of at most 80 columns; its own lines are kept.

    Parameters
    ----------
    text : str
    indent : str
        Before every line.
    head : str, optional
        Before the first line, in place of the indent.

    Examples
    --------
    >>> print(wrapped("one two\\nthree", indent="  "))
      one two
      three
    """
    lines = []
    for n, line in enumerate(brief(text).split("\n")):
        first = indent if n or head is None else head
        lines.append(wrap(line, COLUMNS, initial_indent=first, subsequent_indent=indent,
                          break_on_hyphens=False) or [""])
    return "\n".join(line for several in lines for line in several)


def box(head, color, text):
    """HTML of a text with a bold line above it and a coloured border; legible on any ground."""
    shown = printable(brief(text), keep="\n\t")
    return BOX.format(head=html.escape(head), text=html.escape(shown), color=color)


def _two_numbers(found, reference):
    """Both with as few digits as tell them apart, but at least four."""
    for digits in range(DIGITS, MOST_DIGITS):
        shown = _shown(found, digits), _shown(reference, digits)
        if shown[0] != shown[1]:
            return shown
    return found, reference


def _shown(number, digits):
    try:
        return f"{float(number):.{digits}g}"
    except ValueError:                                # a text that only looks like a number
        return number
