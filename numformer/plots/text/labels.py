"""Texts of users as matplotlib can draw them: text, font, width, and a key of what is missing."""

from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from typing import NamedTuple
from unicodedata import category
from weakref import WeakKeyDictionary

from numformer.data.tokenizers.normal_forms import normalized
from numformer.plots.text.fonts import (
    advance, drawn, family_with, font_of, fonts_of, has, has_room, is_monospaced)
from numformer.plots.text.letters import CIRCLE, SIGNS, letters, visual

ORDINARY = 0.62                                       # ems of a letter of DejaVu Sans, about
# Of letters that no font has, in this order; the last one stands for all further ones. Labels may
# be rotated, so no sign is another one rotated or mirrored
MARKS = "\u25a1\u25a4\u25ce\u25b3\u2606\u2602\u266b\u2600\u2702\u273f\u2618\u260a\u2640" \
        "\u2643\u2650\u2693\u2696\u271c\u2656\u263d\u2653\u2647\u264c\u2668\u2708\u25a0"
MOST_KEYS = len(MARKS) - 1
KEY = "No font here has"


class Label(NamedTuple):
    """A text as a picture shows it.

    Parameters
    ----------
    text : str
    font : dict
        Options of matplotlib's texts: the font, with families that have what it lacks.
    width : float
        In ems of the text's size, of its longest line.
    """

    text: str
    font: dict
    width: float


class Missing(dict):
    """{letter: mark} of one picture: letters that no font has, in the order in which they came."""

    has_key = False                                   # whether the picture has written it itself
    is_unusual = False                                # whether a label is long or of another font

    def mark(self, letter):
        """The mark of a letter, the same each time."""
        if letter not in self:
            self[letter] = MARKS[min(len(self), MOST_KEYS)]
        return self[letter]

    def key(self):
        """Marks with their code points, a list of texts; empty if no letter is missing."""
        found = [f"{mark} {code_points(letter)}" for letter, mark in self.items()]
        more = len(found) - MOST_KEYS
        return found[:MOST_KEYS] + ([f"{MARKS[-1]} {more} more"] if more > 0 else [])


_MISSING = ContextVar("missing", default=None)        # of the picture that is drawn
# {figure: its Missing}, {text: what it was changed to}, {figure: (text with its key, without it)}
_OF_FIGURE, _SHOWN, _KEYS = WeakKeyDictionary(), WeakKeyDictionary(), WeakKeyDictionary()


def label(text, **font):
    """A text as a picture can show it: the one function for tokens, names and titles.

    A letter that its font lacks is taken from another font that is installed. One that no font has
    becomes a mark; the picture explains the marks. Letters with accents are composed (NFC) where
    Unicode can; for those that keep combining marks, a text leaves a monospaced font in which
    marks are as wide as letters. Where matplotlib sets every text from left to
    right (before 3.11), Hebrew and Arabic are put into their visual order; it does not join
    letters there, as Arabic and Devanagari need it.

    Parameters
    ----------
    text : str
        Of a token: see `numformer.plots.tokens.visible`.
    **font
        ``family``, ``weight`` and what else `FontProperties` of matplotlib takes; by default those
        of rcParams, as they are now.

    Returns
    -------
    Label

    Examples
    --------
    >>> label("abc")
    Label(text='abc', font={}, width=1.86)
    >>> label("\\U0010fffd").text, label("a", family="monospace").font
    ('□', {'family': 'monospace'})
    """
    from matplotlib.font_manager import FontProperties

    shown, families, width = _fitted(text, FontProperties(**font))
    return Label(shown, font | ({"family": families} if families else {}), width)


def _fitted(text, properties):
    """(text, families or None where they need no other, width) of a text in a font."""
    text = [[_composed(letter) for letter in letters(line)] for line in text.split("\n")]
    added, lines, of_marks = [], [], _family_of_marks(chain(*text), properties)
    if of_marks is not None:
        properties = properties.copy()
        properties.set_family([of_marks, *properties.get_family()])
    paths, missing = fonts_of(properties), _MISSING.get()
    monospaced, missing = is_monospaced(paths[0]), Missing() if missing is None else missing
    for line in text:
        shown, width = "", 0.0
        for letter in line:
            path = None if _obeyed(letter) else _font_with(letter, properties, paths, added)
            if path is None:
                letter = missing.mark(letter)
                path = _font_with(letter, properties, paths, added)
            shown += drawn(path, letter)
            width += (advance(path, letter) if monospaced else ORDINARY
                      if letter.isascii() or letter in SIGNS.values()
                      else max(ORDINARY, advance(path, letter)))
        lines.append((shown if _orders_texts() else visual(shown), width))
    families = [*properties.get_family(), *added] if added or of_marks else None
    widest = round(max(width for _, width in lines), 3)
    missing.is_unusual |= bool(families or missing)
    return "\n".join(line for line, _ in lines), families, widest


def _composed(letter):
    """A letter with its accents as one character (NFC), if there is one."""
    return letter if len(letter) == 1 else normalized("NFC", letter)


def _family_of_marks(found, properties):
    """A family with room for the marks of letters that their own font draws over the next letter.

    None if there are no such letters, or no such family. A font that has no é, but e and the
    accent, draws these (since matplotlib 3.11).
    """
    for letter in dict.fromkeys(found):
        parts = normalized("NFD", letter)
        if len(parts) == 1:
            continue
        path, form = next(((path, form) for path in fonts_of(properties)
                           for form in (letter, parts) if has(path, form)), (None, ""))
        if path is not None and not has_room(path, form):
            family = family_with(letter, properties, monospaced=False)
            if family is not None and has_room(font_of(properties, family), letter):
                return family
    return None


def _obeyed(letter):
    """Whether matplotlib would obey a character, not draw it: controls, marks of direction."""
    return category(letter[0]) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _font_with(letter, properties, paths, added):
    """The file of a font with a letter; if it is none of `paths`, its family is added."""
    for path in (*paths, *(font_of(properties, family) for family in added)):
        if has(path, letter):
            return path
    family = family_with(letter, properties, is_monospaced(paths[0]))
    if family is None:
        return None
    added.append(family)
    return font_of(properties, family)


def _orders_texts():
    """Whether matplotlib itself sets Hebrew and Arabic from right to left."""
    from matplotlib import ft2font

    return hasattr(ft2font, "__libraqm_version__")


def code_points(letter):
    """Its code points, of a long sequence the first three.

    Examples
    --------
    >>> code_points("\\u4e2d"), code_points("\\U0001f468\\u200d\\U0001f469\\u200d\\U0001f467")
    ('U+4E2D', 'U+1F468+200D+1F469+…')
    """
    found = [f"{ord(character):04X}" for character in letter.removeprefix(CIRCLE) or letter]
    return "U+" + "+".join(found[:3] + ["\u2026"] * (len(found) > 3))


@contextmanager
def legible(inputs, may_grow):
    """Draw a picture inside; its texts get fonts that have their letters, and a key of the others.

    Parameters
    ----------
    inputs : iterable
        Of the function that draws: if one of them is Axes, their figure may have marks already.
    may_grow : bool
        Whether a new figure gets higher by the lines of the key.

    Yields
    ------
    function
        To call with what was drawn, Axes or a Figure.
    """
    if _MISSING.get() is not None:                    # a part of a picture
        yield lambda drawn: None
        return
    given = next((value.figure for value in inputs if hasattr(value, "get_subplotspec")), None)
    missing = _OF_FIGURE.setdefault(given, Missing()) if given is not None else Missing()
    before = _MISSING.set(missing)
    try:
        yield lambda drawn: _finish(getattr(drawn, "figure", None), missing,
                                    may_grow and given is None)
    finally:
        _MISSING.reset(before)


def lay_out_twice():
    """Let the picture that is drawn have a second layout: matplotlib's first one is not exact."""
    if (missing := _MISSING.get()) is not None:
        missing.is_unusual = True


def take_key():
    """The key of the picture that is drawn, a list of texts, for one that writes it itself."""
    missing = _MISSING.get()
    if missing is None:
        return []
    missing.has_key = True
    return missing.key()


def in_lines(key, most):
    """The key of marks in lines of limited width, in ems.

    Examples
    --------
    >>> in_lines(["\u25a1 U+4E2D", "\u25a4 U+5E74"], 22)
    ['No font here has   □ U+4E2D', '▤ U+5E74']
    """
    lines, used = [KEY] if key else [], len(KEY)
    for each in key:
        if ORDINARY * (used + len(each) + 2) > most:
            lines, used = [*lines, each], len(each)
        else:
            lines[-1], used = f"{lines[-1]}   {each}", used + len(each) + 2
    return lines


def _finish(figure, missing, may_grow):
    if not hasattr(figure, "subplotpars"):            # no picture, or one of several
        return
    for text in _texts(figure):
        _fit(text)
    if missing and not missing.has_key:
        _OF_FIGURE[figure] = missing
        _write_key(figure, missing.key(), may_grow)
    if missing.is_unusual and figure.get_layout_engine() is not None:
        figure.draw_without_rendering()               # a first layout: the next is exact


def _texts(artist):
    """All texts below an artist but those of ticks, which get theirs when they are drawn."""
    from matplotlib.axis import Axis
    from matplotlib.text import Text

    for child in artist.get_children():
        if isinstance(child, Text):
            yield child
        elif isinstance(child, Axis):
            yield child.label
        else:
            yield from _texts(child)


def _fit(text):
    """Give a text a font that has its letters; once, because the order may be reversed."""
    from matplotlib.cbook import is_math_text

    words = text.get_text()
    if not words or _SHOWN.get(text) == words or text.get_parse_math() and is_math_text(words):
        return
    shown, families, _ = _fitted(words, text.get_fontproperties())
    if families:
        text.set_fontfamily(families)
    if shown != words:
        text.set_text(shown)
        _SHOWN[text] = shown


def _write_key(figure, key, may_grow):
    """Write the key of the marks below a picture."""
    width, height = figure.get_size_inches()
    artist, before = _KEYS[figure] if figure in _KEYS else _artist_of_key(figure)
    inches = artist.get_fontsize() / 72
    lines = in_lines(key, width / inches - 3)
    artist.set_text("\n".join([before] * bool(before) + lines))
    _fit(artist)                                      # the marks may need another font
    room = 1.25 * inches * len(lines)
    if figure in _KEYS:
        return
    _KEYS[figure] = artist, before
    if may_grow:
        figure.set_size_inches(width, height + room)
        if figure.get_layout_engine() is None:
            for ax in figure.axes:
                left, low, wide, high = ax.get_position(original=True).bounds
                ax.set_position((left, (low * height + room) / (height + room), wide,
                                 high * height / (height + room)))
    elif figure.get_layout_engine() is None:
        figure.subplots_adjust(bottom=min(figure.subplotpars.bottom + room / height, 0.5))


def _artist_of_key(figure):
    """(text that is to hold the key, what it holds already)."""
    if figure.legends:                                # they have the place below all axes
        ax = figure.axes[-1]
        return ax.xaxis.label, ax.get_xlabel()
    before = figure.get_supxlabel()
    return figure.supxlabel(before, fontsize="medium"), before
