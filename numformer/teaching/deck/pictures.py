"""The pictures of the table of the decks: what each shows, and on which slides it belongs."""

import tomllib
from pathlib import Path, PurePosixPath
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
    command : str
        What else draws it: a command, or a lesson; empty for the pictures of an experiment, and for
        those that `numformer figures` draws.
    reason : str
        Why no row has it, where none has.
    """

    shows: str
    code: tuple
    experiment: str = ""
    command: str = ""
    reason: str = ""


_TABLE = tomllib.loads(Path(__file__).with_name("pictures.toml").read_text(encoding="utf-8"))
PICTURES = {name: Picture(**{**entry, "code": tuple(entry["code"])})
            for name, entry in _TABLE.items()}


def how_to_draw(name):
    """The command or the lesson that draws a picture.

    Examples
    --------
    >>> how_to_draw("figures/masks.png"), how_to_draw("plots.forecast_fan")
    ('numformer figures masks', 'numformer train --preset forecast')
    """
    picture = PICTURES[name]
    if picture.experiment:
        return f"numformer experiment {picture.experiment}"
    return picture.command or f"numformer figures {PurePosixPath(name).stem}"


def rows_with(name):
    """The rows that name a picture, a preset, an experiment or anything else.

    Examples
    --------
    >>> [row.place for row in rows_with("figures/t5_bias.png")]
    ['B 12']
    """
    return [row for deck in DECKS.values() for row in deck.rows
            if name in (*row.code, *row.picture, *row.run)]


def slides_with(name):
    """The slides of these rows.

    Examples
    --------
    >>> slides_with("experiment:attention-weights")
    'B 24, B 25, B 26, D 23-25'
    """
    return ", ".join(dict.fromkeys(row.place for row in rows_with(name)))
