"""A row of the table of the decks: what a deck of lecture notes has from some line on, and where
this project has it."""

import tomllib
from pathlib import Path
from typing import NamedTuple

from numformer.teaching.deck.practice import practice_of


class Slide(NamedTuple):
    """A page of a deck.

    Parameters
    ----------
    number : int
        Counted from 1 in the order of the pages; one that repeats the heading before it, as slides
        that build up do, counts as another page.
    line : int
        Of its heading, in the text of the deck.
    heading : str
        As the deck has it.
    """

    number: int
    line: int
    heading: str


class Slip(NamedTuple):
    """A misprint of a deck.

    Parameters
    ----------
    line : int
        Of the text of the deck.
    text : str
        Of that line, or the part of it that is wrong.
    place : str
        The first cell of the row of `CONVENTIONS.md` that says what is right; where several rows
        begin with it, after a bar some words of its second cell.
    """

    line: int
    text: str
    place: str


class Row(NamedTuple):
    """What a deck has from a line on, up to the line of the next row.

    Parameters
    ----------
    deck : str
        Its letter.
    lines : (int, int)
        The first and the last one, counted from 1, in the text of the deck.
    slides : tuple of Slide
        The pages that these lines are on.
    title : str
        What is there, in our words.
    formula : tuple of str
        Equations in Python, of the first name in ``code``, in the words of
        `numformer.teaching.deck.formula`, which evaluates them; empty where there is none.
    where : str
        Shapes of the arrays in it: ``Q (T, D), ids (T) below V``.
    code : tuple of str
        Names below ``numformer``: ``functional.softmax``, ``layers.LSTM.step``.
    picture : tuple of str
        Names in ``pictures.toml``, which says what each shows: ``figures/NAME.png``, or
        ``plots.NAME`` for a function that draws.
    run : tuple of str
        ``preset:NAME``, ``experiment:NAME``, ``notebook:N``, ``count:NAME`` for `numformer count
        NAME`, or ``verb:ARGUMENTS`` for any other command; then ``exercise:N`` and ``exam:NA``,
        which ``practice.toml`` has by slide.
    tests : tuple of str
        ``PAGE::TEST``, of tests that use some of the code.
    slips : tuple of Slip
        The misprints on these lines.
    note : str
        How what is here differs from what the deck has, where it does.
    reason : str
        Why there is no code, where there is none.
    keywords : tuple of str
        Of ``keywords.toml``: people, products, acronyms and examples on these lines.
    typed : tuple of str
        Of ``keywords.toml``: other words for what is on these lines.

    Examples
    --------
    >>> from numformer.teaching.deck import DECKS
    >>> row = DECKS["B"].row_at(131)
    >>> row.lines, row.slides[0].heading, row.code[:2]
    ((129, 136), 'Rotary Positional Encodings (RoPE) (Su+ 2021)', ('functional.rotary', \
'layers.RotaryPositions'))
    """

    deck: str
    lines: tuple
    slides: tuple
    title: str
    formula: tuple = ()
    where: str = ""
    code: tuple = ()
    picture: tuple = ()
    run: tuple = ()
    tests: tuple = ()
    slips: tuple = ()
    note: str = ""
    reason: str = ""
    keywords: tuple = ()
    typed: tuple = ()

    @property
    def heading(self):
        """Of its slides, each once."""
        return ", ".join(dict.fromkeys(slide.heading for slide in self.slides))

    @property
    def place(self):
        """Its deck and slides: "B 13", "B 42-43"."""
        return f"{self.deck} {numbers([self])}"


def numbers(rows):
    """The slides of consecutive rows of a deck, from the first to the last.

    Examples
    --------
    >>> from numformer.teaching.deck import DECKS
    >>> numbers(DECKS["B"].rows[:3])
    '1-3'
    """
    slides = [slide.number for row in rows for slide in row.slides]
    first, last = min(slides), max(slides)
    return f"{first}-{last}" if last > first else str(first)


class Deck(NamedTuple):
    """A deck, of the page of the table that is named by its letter.

    Parameters
    ----------
    letter, title : str
        As in `CONVENTIONS.md`.
    n_lines : int
        Of its text.
    slides : tuple of Slide
    slips : tuple of Slip
    rows : tuple of Row
        By line.
    """

    letter: str
    title: str
    n_lines: int
    slides: tuple
    slips: tuple
    rows: tuple

    @classmethod
    def load(cls, letter):
        """Read ``LETTER.toml`` of this folder, and the deck's part of ``keywords.toml``."""
        table = _read(f"{letter.lower()}.toml")
        keywords = _read("keywords.toml")
        n_lines = table["n_lines"]
        slides = tuple(Slide(number, int(line), heading)
                       for number, (line, heading) in enumerate(table["slides"].items(), 1))
        slips = tuple(Slip(**slip) for slip in table["slip"])
        begins = [row.pop("line") for row in table["row"]]
        rows = []
        for row, first, following in zip(table["row"], begins, [*begins[1:], n_lines + 1]):
            here = range(first, following)
            open_at_first = max((s for s in slides if s.line <= first), default=slides[0])
            rows.append(Row(
                deck=letter, lines=(first, following - 1),
                slides=tuple(s for s in slides if s.line in here or s is open_at_first),
                slips=tuple(slip for slip in slips if slip.line in here),
                keywords=_words_on(keywords[letter], here),
                typed=_words_on(keywords["typed"][letter], here),
                run=(*row.pop("run", ()), *practice_of(letter, first)),
                **{name: tuple(value) if isinstance(value, list) else value
                   for name, value in row.items()}))
        return cls(letter, table["title"], n_lines, slides, slips, tuple(rows))

    def row_at(self, line):
        """The row that holds a line.

        Raises
        ------
        ValueError
            If the deck has no such line.

        Examples
        --------
        >>> from numformer.teaching.deck import DECKS
        >>> DECKS["B"].row_at(133).title
        'Rotary positions: products that depend on the distance alone'
        """
        if not 1 <= line <= self.n_lines:
            raise ValueError(f"deck {self.letter}: line {line} must be one of its {self.n_lines} "
                             "lines, counted from 1.")
        return max((row for row in self.rows if row.lines[0] <= line), key=lambda row: row.lines)


def _words_on(table, lines):
    """The words of a table by line, each once."""
    return tuple(dict.fromkeys(word for line, words in table.items() if int(line) in lines
                               for word in words))


def _read(name):
    return tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
