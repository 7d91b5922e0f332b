"""Which font has a letter: those that a text is set in, or another that is installed.

Matplotlib sets a text in a list of families, and takes each letter from the first that has it.
"""

from functools import lru_cache
from unicodedata import category

SHIPPED, SHIPPED_MONOSPACE = "DejaVu Sans", "DejaVu Sans Mono"        # with matplotlib
# Of symbols under the code points of other letters, or of a box for every letter
_NO_LETTERS = ("cm", "STIXSize", "STIXNonUnicode", "Last Resort", "DejaVu Math")
_UNSEEN = "\u200c\u200d\ufe0e\ufe0f"                 # joiners, and selectors of emoji
_REGULAR = {"regular": 400, "normal": 400, "book": 400, "medium": 500, "bold": 700}


def fonts_of(properties):
    """The files of the fonts that a text is set in, in their order; rcParams count as they are now.

    Parameters
    ----------
    properties : matplotlib FontProperties

    Returns
    -------
    tuple of path
    """
    found = []
    for family in properties.get_family():
        try:
            found.append(font_of(properties, family))
        except ValueError:                            # matplotlib goes on with the next one
            continue
    return tuple(found) or (font_of(properties, SHIPPED),)


def font_of(properties, family):
    """The file of the font of a family that is most like these properties.

    Raises
    ------
    ValueError
        If no font of that family is installed.
    """
    from matplotlib.font_manager import findfont

    each = properties.copy()
    each.set_family(family)
    return findfont(each, fallback_to_default=False)


def has(path, letter):
    """Whether a font file has all characters of a letter that are visible.

    Examples
    --------
    >>> from matplotlib.font_manager import findfont
    >>> has(findfont("DejaVu Sans"), "e\\u0301"), has(findfont("DejaVu Sans"), "\\u4e2d")
    (True, False)
    """
    characters = charmap(path)
    return all(ord(character) in characters for character in letter if character not in _UNSEEN)


def has_room(path, letter):
    """Whether the marks of a letter are drawn over and under it: they have no width in the font.

    In a monospaced font they may be as wide as a letter; then they are drawn over the next one.

    Examples
    --------
    >>> from matplotlib.font_manager import findfont
    >>> [has_room(findfont(name), "x\\u0302") for name in ("DejaVu Sans", "DejaVu Sans Mono")]
    [True, False]
    """
    return not is_monospaced(path) or not any(
        _widths(path)[1](character) for character in letter[1:] if _is_mark(character))


def drawn(path, letter):
    """A letter without the joiners and selectors that its font lacks: they are invisible."""
    characters = charmap(path)
    return "".join(character for character in letter
                   if character not in _UNSEEN or ord(character) in characters)


def is_monospaced(path):
    """Whether all letters of a font have one width."""
    return _widths(path)[0]


def advance(path, letter):
    """The width of a letter in ems: of its characters, without marks above and below them.

    Examples
    --------
    >>> from matplotlib.font_manager import findfont
    >>> round(advance(findfont("DejaVu Sans Mono"), "e\u0301"), 3)
    0.602
    """
    first, *others = letter
    return _widths(path)[1](first) + sum(
        _widths(path)[1](character) for character in others
        if not _is_mark(character) and category(character) != "Cf")


def _is_mark(character):
    """Whether a character is a mark above, below or around the one before it."""
    return category(character) in ("Mn", "Me")


def family_with(letter, properties, monospaced):
    """A family that is installed and has a letter, matplotlib's own first; None if none has it.

    One in which marks of the letter have no width comes before the others.

    Parameters
    ----------
    letter : str
    properties : matplotlib FontProperties
        The weight and style that the font is to have.
    monospaced : bool
        Whether matplotlib's font of one width comes before its other one.

    Returns
    -------
    str or None
    """
    own = (SHIPPED_MONOSPACE, SHIPPED) if monospaced else (SHIPPED, SHIPPED_MONOSPACE)
    families = _families()
    names = [*own, *sorted(families, key=lambda name: ("Serif" in name, name))]
    having = (name for name in names if name in families and has(families[name], letter)
              and has(font_of(properties, name), letter))
    first = next(having, None)
    if first is None or has_room(font_of(properties, first), letter):
        return first
    return next((name for name in having if has_room(font_of(properties, name), letter)), first)


def _families():
    """{family: file} of all fonts that matplotlib knows, the most regular file of each."""
    from matplotlib import font_manager

    best = {}
    for entry in font_manager.fontManager.ttflist:
        if not entry.name.startswith(_NO_LETTERS) and (
                entry.name not in best or _unlike(entry) < _unlike(best[entry.name])):
            best[entry.name] = entry
    return {name: font_manager.FontPath(entry.fname, entry.index) if getattr(entry, "index", 0)
            else entry.fname for name, entry in best.items()}


def _unlike(entry):
    """How far a font is from the regular one of its family; the less, the better."""
    weight = _REGULAR.get(entry.weight, entry.weight)
    return (entry.style != "normal", abs(weight - 400) if isinstance(weight, int) else 1000,
            str(entry.stretch) not in ("normal", "400"), str(entry.fname))


def charmap(path):
    """The code points of a font file; none if it cannot be read."""
    return _charmap(str(path), getattr(path, "face_index", 0))


@lru_cache(maxsize=512)
def _charmap(path, index):
    try:
        return frozenset(_face(path, index).get_charmap())
    except (OSError, RuntimeError, ValueError):
        return frozenset()


def _face(path, index):
    from matplotlib.ft2font import FT2Font

    return FT2Font(path, face_index=index) if index else FT2Font(path)


def _widths(path):
    return _measured(str(path), getattr(path, "face_index", 0))


@lru_cache(maxsize=16)
def _measured(path, index):
    """(whether all letters have one width, function from a character to its width in ems)."""
    face = _face(path, index)
    face.set_size(1000, 72)                           # a pixel is a thousandth of an em
    characters = _charmap(path, index)

    @lru_cache(maxsize=4096)
    def width(character):
        if ord(character) not in characters:
            return 0.0
        return face.load_char(ord(character)).linearHoriAdvance / 65536 / 1000
    return abs(width("i") - width("M")) < 1e-3 and width("i") > 0, width
