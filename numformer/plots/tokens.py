"""Tokens as labels."""

from functools import lru_cache
from unicodedata import category

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


def label_ticks(axis, tokens, size=8):
    """Write tokens at the ticks 0, 1, ... of an axis; long ones on the x axis are rotated."""
    labels = [visible(token) for token in tokens]
    rotated = ({"rotation": 60, "ha": "right", "rotation_mode": "anchor"} if axis.axis_name == "x"
               and max(map(len, labels)) > 3 else {})
    axis.set_ticks(range(len(tokens)), labels, fontsize=size, **rotated)


@lru_cache(maxsize=1)
def _glyphs():
    """The code points that matplotlib's default font can draw."""
    from matplotlib.font_manager import FontProperties, findfont
    from matplotlib.ft2font import FT2Font

    return set(FT2Font(findfont(FontProperties())).get_charmap())
