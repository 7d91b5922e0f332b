"""The command lines of a row of the table of the decks: each runs as it is printed."""

import re

from numformer.teaching.deck.pictures import how_to_draw

_RUNS = {"experiment": "numformer experiment {}", "count": "numformer count {}",
         "verb": "numformer {}"}


def commands_of(row):
    """The command lines of a row, in an order in which they run.

    A preset ``A-from-B``, as `numformer reproduce` names it, begins with the weights of B, which is
    trained first. What another line of the row reads is written to ``runs/NAME``.

    Examples
    --------
    >>> from numformer.teaching.deck import DECKS
    >>> for line in commands_of(DECKS["C"].row_at(251)):
    ...     print(line)
    numformer train --preset translate --out runs/translate
    numformer sample runs/translate
    >>> for line in commands_of(DECKS["E"].row_at(1035)):
    ...     print(line)
    numformer train --preset bert --out runs/bert
    numformer train --preset few-topics --from runs/bert
    """
    chosen = [name.partition(":")[::2] for name in row.run]
    presets = list(dict.fromkeys(each for kind, name in chosen if kind == "preset"
                                 for each in _with_starts(name)))
    read = {start for start in map(_start, presets) if start}
    told = [_RUNS[kind].format(name) for kind, name in chosen if kind in _RUNS]
    for line in [*told, *(how_to_draw(picture, row.run) for picture in row.picture)]:
        read.update(re.findall(r"runs/([\w-]+)", line))
    return [_train(name, name in read) for name in presets] + told


def _train(name, is_read):
    start = _start(name)
    words = [f"numformer train --preset {name.partition('-from-')[0]}",
             *([f"--from runs/{start}"] if start else []),
             *([f"--out runs/{name}"] if is_read else [])]
    return " ".join(words)


def _start(name):
    """The run that a preset A-from-B begins with; empty for others."""
    return name.partition("-from-")[2]


def _with_starts(name):
    """The presets that a preset needs, and itself."""
    return [*_with_starts(_start(name)), name] if _start(name) else [name]
