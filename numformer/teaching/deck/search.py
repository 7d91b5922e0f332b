"""Find slides of the decks by their headings and key words, or by what the table says of them."""

import re
from functools import cache
from typing import NamedTuple

from numformer.teaching.deck import DECKS
from numformer.teaching.deck.words import PART, Text
from numformer.terminal import closest, printable

ALL = tuple(row for deck in DECKS.values() for row in deck.rows)
ON_SLIDE = 3                                          # of `_texts`: title, key words, headings


def search(text, rows=ALL):
    """The rows whose slides have all words of a text, and the other rows that say them: best first.

    A slide has its title, which is what we call it, key words that lecturers type, and its heading.
    A row also says its formulas and names of code, and after these its pictures, notes and
    misprints. Rows that have the words in an earlier one of these come first; so do those that have
    them as a phrase, or just as they are typed. Words are whole, in any form: "masking" finds
    "masks", and "layernorm" both "Layer Norm" and `layers.LayerNorm`. Only if no row has them may
    they be the beginnings of words.

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
    >>> [row.place for row in search("sinusoidal encoding")[0]][:2]
    ['B 10', 'B 10']
    """
    words = [word for word in text.split() if PART.search(word)]
    for has in (Text.has, Text.begins):
        found = [row for row in rows if words and all(
            any(has(told, word) for told in _texts(row)) for word in words)]
        if found:
            break
    else:
        raise LookupError(
            f"no row of the map names {printable(text)}{_meant(words, rows)}")
    found.sort(key=lambda row: _cost(words, _fit(row.deck, row.lines[0]), has))
    on_slides = [row for row in found if all(
        any(has(told, word) for told in _texts(row)[:ON_SLIDE]) for word in words)]
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
    """The rows that name a layer, one of its methods, or the function that it computes.

    Examples
    --------
    >>> [row.place for row in with_layer("LayerNorm")][-3:]
    ['C 56', 'E 27', 'E 36']
    """
    return [row for row in rows if any(f"{code}.".startswith(f"layers.{name}.")
                                       or _function(code) == name for code in row.code)]


@cache
def layers_named():
    """The names of all layers that rows name, in order.

    Examples
    --------
    >>> "LayerNorm" in layers_named()
    True
    """
    return sorted({code.split(".")[1] for row in ALL for code in row.code
                   if code.startswith("layers.")})


@cache
def _function(code):
    """The layer that a name of `functional` belongs to, such as LayerNorm to `layer_norm_backward`
    and to `residual_layer_norm`; None if there is none."""
    room, _, name = code.partition(".")
    name = re.sub(r"^residual_|_(backward|outside|cell)$", "", re.sub("_backward$", "", name))
    return {layer.lower(): layer for layer in layers_named()}.get(
        name.replace("_", "")) if room == "functional" else None


# ---- how well a row fits -------------------------------------------------------------------------


class Fit(NamedTuple):
    """What a row says, by weight, and what may be typed for it as a whole.

    Parameters
    ----------
    texts : tuple of Text
        Title, key words, headings, code, and the rest.
    topic : Text
        The title up to its colon.
    typed, headings, keywords : tuple of Text
        Each alone.
    """

    texts: tuple
    topic: Text
    typed: tuple
    headings: tuple
    keywords: tuple


@cache
def _fit(deck, line):
    row = DECKS[deck].row_at(line)
    headings = [slide.heading for slide in row.slides]
    slips = [text for slip in row.slips for text in (slip.text, slip.place)]
    texts = (row.title, "\n".join([*row.typed, *row.keywords]), "\n".join(headings),
             "\n".join([*row.formula, row.where, *row.code]),
             "\n".join([*row.picture, *row.run, *slips, row.note, row.reason]))
    return Fit(tuple(Text(text, n < ON_SLIDE) for n, text in enumerate(texts)),
               Text(row.title.partition(":")[0]),
               *(tuple(map(Text, each)) for each in (row.typed, headings, row.keywords)))


def _texts(row):
    return _fit(row.deck, row.lines[0]).texts


def _cost(words, fit, has):
    """How far a row is from a search: 0 for one whose title is of just these words."""
    costs = [cost + (not any(text.is_phrase(words, exactly=True) for text in texts))
             for cost, texts in ((0, [fit.topic]), (1.5, fit.typed), (4.5, fit.headings),
                                 (7, fit.keywords))
             if any(text.is_phrase(words) for text in texts)]
    costs += [10 * n + _distance(words, told) for n, told in enumerate(fit.texts)
              if all(has(told, word) for word in words)]
    if costs:
        return min(costs)
    firsts = [min(n for n, told in enumerate(fit.texts) if has(told, word)) for word in words]
    return 10 * len(fit.texts) + 10 * max(firsts) + sum(firsts) / len(firsts)


def _distance(words, told):
    """Between 1 and 7: of a phrase at the beginning, of one elsewhere, of one in other forms, of
    scattered words; of more other words the more."""
    at = told.phrase_at(words, exactly=True)
    form = 1 if at == 0 else 2 if at else 3.5 if told.phrase_at(words) is not None else 5
    return form + 1.5 * (1 - min(1, len(words) / len(told.words)))


def _meant(words, rows):
    unknown = [word for word in words if not any(
        told.has(word) or told.begins(word) for row in rows for told in _texts(row))]
    known = sorted({part for row in rows for told in _texts(row)[:ON_SLIDE] for part in told.words})
    close = closest(unknown[0].lower(), known) if unknown else None
    return f" (did you mean {close}?)" if close else ""
