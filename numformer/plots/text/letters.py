r"""Letters as a reader counts them, signs for invisible ones, and the order of reading.

A letter may be several code points: a base with combining marks, an emoji of several people, or a
flag. Hebrew and Arabic run from right to left, numbers in them from left to right.
"""

import unicodedata
from functools import lru_cache

SIGNS = {" ": "\u2423", "\n": "\u23ce", "\t": "\u21e5"}
ELLIPSIS, CIRCLE = "\u2026", "\u25cc"                 # CIRCLE: holds a mark without a base
_JOINER, _NO_JOINER = "\u200d", "\u200c"
_VIRAMA = 9                                           # its canonical combining class
_KINDS = {"L": "L", "R": "R", "AL": "R", "EN": "N", "AN": "N"}
_MIRRORED = dict(zip("()[]{}<>\u00ab\u00bb\u2039\u203a", ")(][}{><\u00bb\u00ab\u203a\u2039"))


def signs(token, most=None):
    """A token with visible signs for white space, code points for other invisible characters.

    An empty token becomes the sign of the empty set. A combining mark without a base gets a dotted
    circle. Joiners between the parts of one letter stay.

    Parameters
    ----------
    token : str
    most : int, optional
        Letters of the result; of a longer one the middle is left out, and its length is added.

    Returns
    -------
    str

    Examples
    --------
    >>> signs(" a\\n"), signs("\\u200b"), signs(""), signs("\\u0301")
    ('␣a⏎', 'U+200B', '∅', '◌́')
    >>> signs("x" * 500, most=12)
    'xxx…xx (500)'
    """
    if token.isascii() and token.isprintable() and " " not in token:
        shown = list(token)
    else:
        shown = [sign for letter in letters(token) for sign in _signs(letter)]
    return "".join(shown if most is None else elided(shown, most)) or "\u2205"


def _signs(letter):
    """The signs of one letter, a list of letters."""
    if letter in SIGNS:
        return [SIGNS[letter]]
    if is_invisible(letter[0]):
        return list(f"U+{ord(letter):04X}")
    return [CIRCLE + letter if unicodedata.category(letter[0])[0] == "M" else letter]


def elided(letters, most):
    """A list of letters, its middle left out if there are more than `most`; its length follows.

    Examples
    --------
    >>> "".join(elided(list("0123456789"), 8)), "".join(elided(list("0123456789"), 10))
    ('0…9 (10)', '0123456789')
    """
    if len(letters) <= most:
        return letters
    length = f" ({len(letters)})"
    kept = max(most - len(length) - 1, 1)
    return [*letters[:(kept + 1) // 2], ELLIPSIS, *letters[len(letters) - kept // 2:], *length]


def is_invisible(character):
    """Whether a character is invisible: white space, controls, marks of direction."""
    return unicodedata.category(character)[0] in "CZ"


def letters(text):
    r"""The letters of a text: each base with what belongs to it.

    That are combining marks, selectors of variants, joiners between two visible characters, the
    second half of a flag, the colour of a skin, the letter after a virama, and vowels and finals
    of Hangul. (A simplified form of the extended grapheme clusters of Unicode.)

    Parameters
    ----------
    text : str

    Returns
    -------
    list of str

    References
    ----------
    Unicode Standard Annex 29, "Unicode Text Segmentation".

    Examples
    --------
    >>> [len(letter) for letter in letters("e\u0301a\U0001f468\u200d\U0001f469")]
    [2, 1, 3]
    """
    if text.isascii():
        return list(text)
    starts = []
    for number, character in enumerate(text):
        if not starts or not _belongs(text, starts[-1], number):
            starts.append(number)
    return [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)])]


def _belongs(text, start, number):
    """Whether a character continues the letter that begins at `start`, before it."""
    first, last, character = text[start], text[number - 1], text[number]
    code, follows = ord(character), text[number + 1:number + 2]
    if is_invisible(first):
        return False
    if character in (_JOINER, _NO_JOINER):            # an orthography needs it between two letters
        return bool(follows) and not is_invisible(follows)
    if unicodedata.category(character)[0] == "M" or 0x1F3FB <= code <= 0x1F3FF:
        return True
    if last == _JOINER:
        return unicodedata.category(character) == "So"                # of emoji
    if last == _NO_JOINER:
        return False
    if 0xE0020 <= code <= 0xE007F:                    # tags, of the flags of regions
        return True
    if 0x1F1E6 <= code <= 0x1F1FF:
        return number == start + 1 and 0x1F1E6 <= ord(first) <= 0x1F1FF
    if 0x1160 <= code <= 0x11FF:
        return 0x1100 <= ord(last) <= 0x11FF or 0xAC00 <= ord(last) <= 0xD7A3
    return (unicodedata.combining(last) == _VIRAMA and character.isalpha()
            and _script(first) == _script(character))


def _script(character):
    return unicodedata.name(character, "").split(" ")[0]


@lru_cache(maxsize=4096)
def _kind(letter):
    """L, R, N for a number, or "" for what takes the direction of its neighbours."""
    return _KINDS.get(unicodedata.bidirectional(letter[0]), "")


def is_right_to_left(letters):
    """Whether the first letter that has a direction runs from right to left."""
    return next((kind == "R" for kind in map(_kind, letters) if kind in ("L", "R")), False)


def visual_order(letters, right_to_left=None):
    """The numbers of the letters of one line, from left to right as they are read on paper.

    Runs of Hebrew and Arabic are reversed, numbers in them are not. (A simplified form of the
    bidirectional algorithm of Unicode: without embeddings, which `signs` shows as code points.)

    Parameters
    ----------
    letters : list of str
    right_to_left : bool, optional
        The direction of the line; that of its first letter that has one by default.

    Returns
    -------
    list of int

    References
    ----------
    Unicode Standard Annex 9, "Unicode Bidirectional Algorithm".

    Examples
    --------
    >>> visual_order(["a", " ", "\u05d0", "\u05d1", "1", "2"])
    [0, 1, 4, 5, 3, 2]
    """
    levels = _levels(letters, right_to_left)
    order = list(range(len(letters)))
    for level in (2, 1):
        start = None
        for place in range(len(order) + 1):
            inside = place < len(order) and levels[order[place]] >= level
            if inside and start is None:
                start = place
            elif not inside and start is not None:
                order[start:place] = order[start:place][::-1]
                start = None
    return order


def visual(text):
    """A text of one line, its letters from left to right as they are read on paper.

    Examples
    --------
    >>> visual("a (\u05d0\u05d1) b") == "a (\u05d1\u05d0) b"
    True
    """
    found = letters(text)
    levels = _levels(found)
    return "".join(_MIRRORED.get(found[k], found[k]) if levels[k] == 1 else found[k]
                   for k in visual_order(found))


def _levels(letters, right_to_left=None):
    """How many times each letter is reversed: odd from right to left, even from left to right."""
    kinds = [_kind(letter) for letter in letters]
    if "R" not in kinds:
        return [0] * len(letters)
    base = is_right_to_left(letters) if right_to_left is None else right_to_left
    resolved, before = [], "R" if base else "L"       # the direction of the last one
    for kind in kinds:
        resolved.append("L" if kind == "N" and before == "L" else kind)
        before = kind if kind in ("L", "R") else before
    sides = [kind.replace("N", "R") for kind in resolved]
    following, after = [], "R" if base else "L"
    for side in reversed(sides):
        after = side or after
        following.append(after)
    before = "R" if base else "L"
    for number, (side, after) in enumerate(zip(sides, following[::-1])):
        if not side:                                  # a neutral between two of a kind is of it
            resolved[number] = before if before == after else "R" if base else "L"
        before = side or before
    return [{"L": 2 if base else 0, "R": 1, "N": 2}[kind] for kind in resolved]
