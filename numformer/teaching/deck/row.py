"""A row of the table of the decks: what a deck of lecture notes has from some line on, and where
this project has it."""

from typing import NamedTuple


class Row(NamedTuple):
    """What a deck has from a line on, up to the line of the next row.

    Names in one field are separated by spaces.

    Parameters
    ----------
    line : int
        The first line, counted from 1, in the text of the deck.
    title : str
        What is there, in our words.
    formula : str
        In plain text; empty where there is none.
    code : str
        Names below ``numformer``: ``functional.softmax``, ``layers.LSTM.step``.
    picture : str
        ``figures/NAME.png``, ``recipes/NAME.png``, ``plots.NAME`` for a function that draws, or
        ``plot:KIND`` for `numformer plot KIND`.
    run : str
        ``preset:NAME``, ``experiment:NAME``, ``notebook:N``, ``exercise:N``, ``count:NAME`` for
        `numformer count NAME`, or ``verb:NAME``.
    tests : str
        Pages of tests, by name.
    slip : str
        The first cell of a row of `CONVENTIONS.md`; where several rows begin with it, after a bar
        some words of its second cell. Several ones are separated by `` + ``.
    reason : str
        Why there is no code, where there is none.

    Examples
    --------
    >>> row = Row(131, "Rotary positions", code="functional.rotary layers.RotaryPositions")
    >>> row.names("code")
    ['functional.rotary', 'layers.RotaryPositions']
    """

    line: int
    title: str
    formula: str = ""
    code: str = ""
    picture: str = ""
    run: str = ""
    tests: str = ""
    slip: str = ""
    reason: str = ""

    def names(self, field):
        """The names in a field, as a list."""
        separator = " + " if field == "slip" else None
        return [name.strip() for name in getattr(self, field).split(separator) if name.strip()]


class Deck(NamedTuple):
    """A deck: its letter and title as in `CONVENTIONS.md`, its length, its rows.

    Parameters
    ----------
    letter, title : str
    n_lines : int
        Of its text.
    headings : tuple of int
        The lines at which a new heading begins; one that only repeats the heading before it, as
        slides that build up do, is not counted.
    rows : tuple of Row
        By line.
    """

    letter: str
    title: str
    n_lines: int
    headings: tuple
    rows: tuple

    def row_at(self, line):
        """The row that holds a line: the last one that begins at or before it.

        Raises
        ------
        ValueError
            If the deck has no such line.

        Examples
        --------
        >>> from numformer.teaching.deck import DECKS
        >>> DECKS["B"].row_at(133).line
        129
        """
        if not 1 <= line <= self.n_lines:
            raise ValueError(f"deck {self.letter}: line {line} must be one of its {self.n_lines} "
                             "lines, counted from 1.")
        return max((row for row in self.rows if row.line <= line), key=lambda row: row.line)

    def lines_of(self, row):
        """(first, last) line of a row."""
        later = [other.line for other in self.rows if other.line > row.line]
        return row.line, min(later, default=self.n_lines + 1) - 1
