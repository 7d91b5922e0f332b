"""Tokens as labels."""

import math
from functools import lru_cache
from unicodedata import category

from numformer.plots.axes import cell_inches, text_inches

SIGNS = {" ": "\u2423", "\n": "\u23ce", "\t": "\u21e5"}


def visible(token):
    """A token as a label: visible signs for white space, code points where the font has no glyph.

    Examples
    --------
    >>> visible(" "), visible("\\n"), visible("a"), visible("\\u4e2d")
    ('␣', '⏎', 'a', 'U+4E2D')
    """
    shown = (character if ord(character) in _glyphs() else f"U+{ord(character):04X}"
             for character in signs(token))
    return "".join(shown).replace("$", r"\$")                        # which would begin mathematics


def signs(token):
    """A token with visible signs for white space, code points for other invisible characters.

    An empty token becomes the sign of the empty set.

    Examples
    --------
    >>> signs(" a\\n"), signs("\\u200b"), signs("")
    ('␣a⏎', 'U+200B', '∅')
    """
    return "".join(SIGNS.get(character, f"U+{ord(character):04X}" if is_invisible(character)
                             else character) for character in token) or "\u2205"


def is_invisible(character):
    """Whether a character is invisible: white space, controls, marks of direction."""
    return category(character)[0] in "CZ"


def label_ticks(axis, tokens):
    """Write tokens at the ticks 0, 1, ... of an axis; long ones on the x axis are rotated.

    Where they would overlap, only every second, third, ... is written.
    """
    labels = [visible(token) for token in tokens]
    across, longest = axis.axis_name == "x", max(map(len, labels), default=0)
    rotated = ({"rotation": 60, "ha": "right", "rotation_mode": "anchor"} if across and longest > 3
               else {})
    spans = [abs(high - low) for low, high in (axis.axes.get_xlim(), axis.axes.get_ylim())]
    room = cell_inches(axis.axes, *spans)[0 if across else 1]
    needed = (0.62 * longest + 0.25 if across and not rotated else 1.0) * text_inches()
    every = max(1, math.ceil(needed / room))
    axis.set_ticks(range(0, len(tokens), every), labels[::every], **rotated)


@lru_cache(maxsize=1)
def _glyphs():
    """The code points that matplotlib's default font can draw."""
    from matplotlib.font_manager import FontProperties, findfont
    from matplotlib.ft2font import FT2Font

    return set(FT2Font(findfont(FontProperties())).get_charmap())
