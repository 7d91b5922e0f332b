"""numformer deck: from a slide of the lecture notes to formula, code, picture and experiment.

    numformer deck
    numformer deck A
    numformer deck A 22
    numformer deck C 31-56
    numformer deck rotary
    numformer deck thinking machines
    numformer deck C layer norm
    numformer deck B --line 131
    numformer deck --lesson 4
    numformer deck --layer MultiHeadAttention
"""

import re
from itertools import groupby
from pathlib import PurePosixPath
from textwrap import wrap

from numformer.commands import UsageError
from numformer.commands.shared.output import print_json
from numformer.teaching.deck import DECKS
from numformer.teaching.deck.pictures import PICTURES
from numformer.teaching.deck.row import numbers
from numformer.teaching.deck.search import ALL, layers_named, search, with_layer, with_lesson
from numformer.teaching.deck.targets import how_to_run, misprint, page
from numformer.teaching.exercise import exercises_of_lesson, find_exercise
from numformer.terminal import did_you_mean, printable

INDENT, COLUMNS = 12, 96                              # of the labels, and of a line


def add_arguments(parser):
    parser.add_argument("words", metavar="WORD", nargs="*", help="a deck, by its letter "
                        f"({', '.join(DECKS)}), and then a slide, such as 22, or slides, such as "
                        "31-56, or words to search for; or words alone, to search all decks "
                        "(default: list the decks)")
    parser.add_argument("--lesson", type=int, metavar="N", default=None,
                        help="the slides that lesson N is about")
    parser.add_argument("--layer", metavar="NAME", default=None,
                        help="the slides of a layer, such as LayerNorm")
    parser.add_argument("--line", type=int, metavar="N", default=None,
                        help="the slide of a line of the deck's text")


def run(arguments):
    if not arguments.words and arguments.lesson is arguments.layer is arguments.line is None:
        return _list_decks(arguments)
    rows, words, others = ALL, list(arguments.words), []
    deck = _deck_of(words.pop(0)) if words and len(words[0]) == 1 else None
    if deck is not None:
        rows = deck.rows
    if arguments.line is not None:
        rows = [_row_at(deck, arguments.line)]
    if deck is not None and len(words) == 1 and re.fullmatch("[0-9]{1,9}(-[0-9]{1,9})?", words[0]):
        rows = _rows_on(deck, words.pop(), rows)
    if arguments.lesson is not None:
        rows = with_lesson(arguments.lesson, rows)
    if arguments.layer is not None:
        rows = with_layer(_known_layer(arguments.layer), rows)
    if words and rows:
        rows, others = _found(" ".join(words), rows)
    if not rows:
        raise UsageError("deck: no slide is of all that; leave something out.")
    _show(rows, arguments.lesson)
    if others:
        print(f"\nAlso named on {', '.join(dict.fromkeys(row.place for row in others))}")
    if arguments.json:
        print_json({"rows": [{"place": row.place, **row._asdict(),
                              "slides": [slide._asdict() for slide in row.slides],
                              "slips": [slip._asdict() for slip in row.slips]} for row in rows]})
    return 0


def _list_decks(arguments):
    for letter, deck in DECKS.items():
        print(f"{letter}  {len(deck.slides):3} slides  {deck.title}")
    print("\nnumformer deck A lists the slides of a deck; numformer deck WORDS searches all.")
    if arguments.json:
        print_json({"decks": {letter: {"title": deck.title, "slides": len(deck.slides),
                                       "rows": len(deck.rows)}
                              for letter, deck in DECKS.items()}})
    return 0


# ---- which rows ----------------------------------------------------------------------------------


def _deck_of(letter):
    if letter.upper() not in DECKS:
        raise UsageError(f"deck: there is no deck {printable(letter)}; choose from "
                         f"{', '.join(DECKS)}.")
    return DECKS[letter.upper()]


def _row_at(deck, line):
    if deck is None:
        raise UsageError(f"deck: --line {line} is of no deck; write numformer deck B --line "
                         f"{line}, with one of {', '.join(DECKS)}.")
    try:
        return deck.row_at(line)
    except ValueError:
        raise UsageError(f"deck: --line {line} must be a line of deck {deck.letter}, from 1 to "
                         f"{deck.n_lines}.") from None


def _rows_on(deck, span, rows):
    """The rows that are on a slide, or on the slides from the first to the last."""
    first, _, last = span.partition("-")
    wanted = {slide for slide in deck.slides if int(first) <= slide.number <= int(last or first)}
    if not wanted:
        raise UsageError(f"deck: {span} must be a slide of deck {deck.letter}, from 1 to "
                         f"{len(deck.slides)}, or some, such as 3-5; a line of its text is "
                         "--line N.")
    return [row for row in rows if wanted & {*row.slides}]


def _known_layer(name):
    known = layers_named()
    if name not in known:
        raise UsageError(f"deck: --layer {printable(name)} is on no slide"
                         f"{did_you_mean(name, known)}; choose from {', '.join(known)}.")
    return name


def _found(text, rows):
    try:
        on_slides, others = search(text, rows)
    except LookupError as error:
        raise UsageError(f"deck: {error}; `numformer deck` lists the decks.") from None
    return (on_slides, others) if on_slides else (others, [])


# ---- what is shown -------------------------------------------------------------------------------


def _show(rows, lesson=None):
    """The details of rows of one slide or heading; of others a list, and what they lead to."""
    if (set.intersection(*({(row.deck, slide) for slide in row.slides} for row in rows))
            or len({(row.deck, row.heading) for row in rows}) == 1):
        for where, together in groupby(rows, lambda row: f"{row.place}  {row.heading}"):
            print(where)
            for row in together:
                print(f"\n{row.title}")
                for label, lines in _leads(row):
                    for n, line in enumerate(lines):
                        print(f"  {'' if n else label:{INDENT}}{line}")
        return
    for letter, of_deck in groupby(rows, lambda row: row.deck):
        print(f"{letter}  {DECKS[letter].title}")
        for heading, together in groupby(of_deck, lambda row: row.heading):
            together = list(together)
            print(f"  {numbers(together):8}{heading}")
            for row in together:
                print(f"{'':12}{row.title}")
    print()
    for label, names in _sums(rows, lesson):
        for n, line in enumerate(wrap(", ".join(dict.fromkeys(names)), COLUMNS - INDENT,
                                      break_on_hyphens=False)):
            print(f"{'' if n else label:{INDENT}}  {line}")


def _sums(rows, lesson):
    """(label, names) of what rows lead to, and of the slides with misprints.

    The exercises of a lesson are those that the lesson itself lists.
    """
    run = [name.partition(":") for row in rows for name in row.run]
    yield "lessons", sorted((name for kind, _, name in run if kind == "notebook"), key=int)
    yield "exercises", sorted(find_exercise(name).name for kind, _, name in run
                              if kind == "exercise") if lesson is None else [
                                  each.name for each in exercises_of_lesson(lesson)]
    yield "experiments", [name for kind, _, name in run if kind == "experiment"]
    yield "presets", [name for kind, _, name in run if kind == "preset"]
    yield "figures", [PurePosixPath(name).stem for row in rows for name in row.picture
                      if name.startswith("figures/")]
    yield "misprints", [row.place for row in rows if row.slips]


def _leads(row):
    """(label, lines) of what is known of a row."""
    yield "on it", wrap(", ".join(row.keywords), COLUMNS - INDENT)
    yield "formula", [*row.formula, *([f"where {row.where}"] if row.where else [])]
    yield "code", [f"{name:36}{page(name)}" for name in row.code]
    yield "picture", [line for name in row.picture for line in _picture(name)]
    yield "run", [how_to_run(name) for name in row.run]
    yield "tests", row.tests
    for slip in row.slips:
        (_, claim, correction), = misprint(slip.place)
        yield f"line {slip.line}", [slip.text]
        yield "the deck", wrap(claim, COLUMNS - INDENT)
        yield "right", wrap(f"{correction} (CONVENTIONS.md)", COLUMNS - INDENT)
    yield "note", wrap(row.note, COLUMNS - INDENT)
    yield "no code", wrap(row.reason, COLUMNS - INDENT)


def _picture(name):
    yield f"{name:36}{page(name)}" if name.startswith("plots.") else name
    yield from (f"  {line}" for line in wrap(PICTURES[name].shows, COLUMNS - INDENT - 2))
