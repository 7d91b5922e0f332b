"""numformer deck: from a line of the lecture notes to formula, code, picture and experiment.

    numformer deck
    numformer deck A
"""

from textwrap import wrap

from numformer.commands import UsageError
from numformer.commands.shared.output import print_json
from numformer.teaching.deck import DECKS
from numformer.teaching.deck.targets import misprint, page
from numformer.terminal import printable

RUNS = {"preset": "numformer train --preset {}", "experiment": "numformer experiment {}",
        "count": "numformer count {}", "verb": "numformer {}", "notebook": "notebook {}",
        "exercise": "exercise {} (numformer exercises)"}
INDENT, COLUMNS = 12, 96                              # of the labels, and of a line


def add_arguments(parser):
    parser.add_argument("deck", metavar="DECK", nargs="?", help="a letter, as in CONVENTIONS.md: "
                        f"{', '.join(DECKS)} (default: list the decks)")
    parser.add_argument("line", metavar="LINE", nargs="?", help="a line of the text of the deck "
                        "(default: list the deck's rows)")


def run(arguments):
    if arguments.deck is None:
        for letter, deck in DECKS.items():
            print(f"{letter}  {deck.n_lines:5} lines, {len(deck.rows)} rows: {deck.title}")
        if arguments.json:
            print_json({"decks": {letter: {"title": deck.title, "lines": deck.n_lines,
                                           "rows": len(deck.rows)}
                                  for letter, deck in DECKS.items()}})
        return 0
    letter = arguments.deck.upper()
    if letter not in DECKS:
        raise UsageError(f"deck: there is no deck {printable(arguments.deck)}; choose from "
                         f"{', '.join(DECKS)}.")
    deck = DECKS[letter]
    if arguments.line is None:
        for row in deck.rows:
            print(f"{row.lines[0]:5}  {row.title}")
        if arguments.json:
            print_json({"rows": [{"line": row.lines[0], "title": row.title} for row in deck.rows]})
        return 0
    row = _row(deck, arguments.line)
    first, last = row.lines
    print(f"{letter} {first}{f' to {last}' if last > first else ''}: {row.title}")
    for label, lines in _leads(row):
        for n, line in enumerate(lines):
            print(f"  {'' if n else label:{INDENT}}{line}")
    if arguments.json:
        print_json({**row._asdict(), "slides": [slide._asdict() for slide in row.slides],
                    "slips": [slip._asdict() for slip in row.slips]})
    return 0


def _row(deck, word):
    try:
        return deck.row_at(int(word) if word.isascii() and word.isdecimal() else 0)
    except ValueError:
        raise UsageError(f"deck: {printable(word)} must be a line of deck {deck.letter}, from 1 "
                         f"to {deck.n_lines}.") from None


def _leads(row):
    """(label, lines) of what is known of a row."""
    yield "slide", [f"{slide.number}: {slide.heading}" for slide in row.slides]
    yield "formula", [*row.formula, *([f"where {row.where}"] if row.where else [])]
    yield "code", [f"{name:36}{page(name)}" for name in row.code]
    yield "picture", [_picture(name) for name in row.picture]
    yield "run", [RUNS[kind].format(which)
                  for kind, _, which in (name.partition(":") for name in row.run)]
    yield "tests", row.tests
    for slip in row.slips:
        (_, claim, correction), = misprint(slip.place)
        yield f"line {slip.line}", [slip.text]
        yield "the deck", wrap(claim, COLUMNS - INDENT)
        yield "right", wrap(f"{correction} (CONVENTIONS.md)", COLUMNS - INDENT)
    yield "note", wrap(row.note, COLUMNS - INDENT)
    yield "no code", wrap(row.reason, COLUMNS - INDENT)


def _picture(name):
    if name.startswith("plot:"):
        return f"numformer plot {name.removeprefix('plot:')} RUN"
    if name.startswith("plots."):
        return f"{name:36}{page(name)}"
    return name if name.startswith("figures/") else f"numformer/{name}"
