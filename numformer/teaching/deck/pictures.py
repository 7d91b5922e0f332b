"""The pictures of the table of the decks: what each shows, and on which slides it belongs."""

import tomllib
from pathlib import Path
from typing import NamedTuple

from numformer.teaching.deck import DECKS


class Picture(NamedTuple):
    """A picture.

    Parameters
    ----------
    shows : str
        What is on it, in a line.
    code : tuple of str
        The code whose outputs are drawn: a row with the picture has some of it.
    experiment : str
        The experiment that draws it, which a row with the picture runs; empty for others.
    reason : str
        Why no row has it, where none has.
    """

    shows: str
    code: tuple
    experiment: str = ""
    reason: str = ""


_TABLE = tomllib.loads(Path(__file__).with_name("pictures.toml").read_text(encoding="utf-8"))
PICTURES = {name: Picture(**{**entry, "code": tuple(entry["code"])})
            for name, entry in _TABLE.items()}


def slides_with(name):
    """The slides whose rows name a picture, a preset, an experiment or anything else.

    Examples
    --------
    >>> slides_with("figures/t5_bias.png")
    'B 12'
    >>> slides_with("experiment:batch-norm")
    'C 54, C 55, C 56'
    """
    slides = [f"{row.deck} {slide.number}" for deck in DECKS.values() for row in deck.rows
              for slide in row.slides
              if name in (*row.code, *row.picture, *row.run)]
    return ", ".join(dict.fromkeys(slides))
