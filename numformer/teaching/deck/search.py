"""Find slides of the decks by their headings and key words, or by what the table says of them."""

import re

from numformer.terminal import closest, printable
from numformer.teaching.deck import DECKS

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+|\d+")
_ENDING = re.compile(r"(?<=\w{3})s$|(?<=\w{4})(ed|ing|al)$")              # RNNs, masked, positional
ALL = tuple(row for deck in DECKS.values() for row in deck.rows)


def search(text, rows=ALL):
    """The rows whose slides have all words of a text, and the other rows that say them.

    A slide has its heading, what we call it, and key words: people, products, acronyms and examples
    on it. A row also says its formulas, names, notes and misprints. A word may be the beginning of
    a longer one, or of several: "layernorm" finds "Layer Norm" and `layers.LayerNorm`. Capitals,
    hyphens and endings, as in "masks" and "masking", make no difference.

    Parameters
    ----------
    text : str
    rows : sequence of Row

    Returns
    -------
    on_slides, elsewhere : list of Row

    Raises
    ------
    LookupError
        If there is none of both; the message names what a word that no row has is similar to.

    Examples
    --------
    >>> (row,), others = search("rope intuition")
    >>> row.deck, row.title, others
    ('B', 'The same two words at other positions: the same product', [])
    >>> [row.place for row in search("alammar")[0]]
    ['B 37', 'E 36']
    """
    words = [word for word in map(_stem, text.split()) if word]
    said = {row: _beginnings(_said(row)) for row in rows}
    found = [row for row in rows if words and all(_begins(word, said[row]) for word in words)]
    if not found:
        unknown = [word for word in words
                   if not any(_begins(word, told) for told in said.values())]
        known = sorted({part.lower() for row in rows for part in _PART.findall(_on_slide(row))})
        close = closest(unknown[0], known) if unknown else None
        raise LookupError(f"no row of the map names {printable(text)}"
                          + (f" (did you mean {close}?)" if close else ""))
    on_slides = [row for row in found
                 if all(_begins(word, _beginnings(_on_slide(row))) for word in words)]
    return on_slides, [row for row in found if row not in on_slides]


def with_lesson(number, rows=ALL):
    """The rows that a lesson teaches.

    Examples
    --------
    >>> sorted({row.deck for row in with_lesson(12)})
    ['B', 'C', 'E']
    """
    return [row for row in rows if f"notebook:{number}" in row.run]


def with_layer(name, rows=ALL):
    """The rows that name a layer or one of its methods.

    Examples
    --------
    >>> [row.title for row in with_layer("BatchNorm")][0]
    'LayerNorm next to BatchNorm: which axes are averaged'
    """
    return [row for row in rows
            if any(f"{code}.".startswith(f"layers.{name}.") for code in row.code)]


def layers_named():
    """The names of all layers that rows name, in order.

    Examples
    --------
    >>> "LayerNorm" in layers_named()
    True
    """
    return sorted({code.split(".")[1] for row in ALL for code in row.code
                   if code.startswith("layers.")})


def _on_slide(row):
    return "\n".join([row.title, *(slide.heading for slide in row.slides), *row.keywords])


def _said(row):
    slips = [text for slip in row.slips for text in (slip.text, slip.place)]
    return "\n".join([_on_slide(row), *row.formula, row.where, *row.code, *row.picture, *row.run,
                      *slips, row.note, row.reason])


def _stem(word):
    """A word as it is compared: without one of the commonest endings, if enough is left."""
    return _ENDING.sub("", "".join(_PART.findall(word)).lower())


def _beginnings(text):
    """A text without what is between its words, and the places where they begin."""
    places, length = set(), 0
    parts = _PART.findall(text)
    for part in parts:
        places.add(length)
        length += len(part)
    return "".join(parts).lower(), places


def _begins(word, told):
    text, places = told
    return any(match.start() in places for match in re.finditer(f"(?={re.escape(word)})", text))
