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
    commands : tuple of str
        What draws it: commands or a lesson, of which any one does. A row with a picture of an
        experiment runs it.
    reason : str
        Why no row has it, where none has.
    """

    shows: str
    code: tuple
    commands: tuple = ()
    reason: str = ""

    @property
    def experiments(self):
        """The experiments that draw it."""
        return tuple(command.removeprefix("numformer experiment ") for command in self.commands
                     if command.startswith("numformer experiment "))


_TABLE = tomllib.loads(Path(__file__).with_name("pictures.toml").read_text(encoding="utf-8"))
PICTURES = {
    name: Picture(entry["shows"], tuple(entry["code"]),
                  tuple(entry.get("commands") or [f"numformer figures {PurePosixPath(name).stem}"]),
                  entry.get("reason", ""))
    for name, entry in _TABLE.items()}


def how_to_draw(name, run=()):
    """The command or the lesson that draws a picture: of several one that is in a row's `run`.

    Examples
    --------
    >>> how_to_draw("figures/masks.png"), how_to_draw("plots.forecast_fan")
    ('numformer figures masks', 'numformer train --preset forecast')
    >>> how_to_draw("plots.patch_attention", ["preset:vqa"])
    'numformer train --preset vqa'
    """
    commands = PICTURES[name].commands
    own = [command for command in commands if set(_named(command)) & set(run)]
    return (own or commands)[0]


def _named(command):
    """The names in the field `run` that stand for a command or a lesson."""
    last = command.rpartition(" ")[2]
    return f"preset:{last}", f"experiment:{last}", f"notebook:{last}"


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
