"""numformer deck: from a slide of the lecture notes to formula, code, picture and experiment.

    numformer deck
    numformer deck A
    numformer deck A 22
    numformer deck C 31-56
    numformer deck rotary
    numformer deck thinking machines
    numformer deck C layer norm
    numformer deck C 31-56 norm
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
from numformer.teaching.deck.commands import commands_of
from numformer.teaching.deck.pictures import PICTURES, how_to_draw
from numformer.teaching.deck.row import numbers
from numformer.teaching.deck.search import ALL, layers_named, search, with_layer, with_lesson
from numformer.teaching.deck.targets import misprint, page
from numformer.teaching.exercise import exercises_of_lesson, find_exercise
from numformer.terminal import did_you_mean, printable, shortened

INDENT, COLUMNS = 12, 96                              # of the labels, and of a line
SLIDES = re.compile("([0-9]{1,9})(?:-([0-9]{1,9}))?")


def add_arguments(parser):
    parser.add_argument("words", metavar="WORD", nargs="*", help="a deck, by its letter "
                        f"({', '.join(DECKS)}), and then a slide, such as 22, or slides, such as "
                        "31-56, or words to search for, or slides and words; or words "
                        "alone, to search all decks, best first (default: list the decks)")
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
    deck = None
    # "3 5" is of no deck, "6 matmuls" are words to search for
    if words and len(words[0]) == 1 and ("".join(words).isdigit() or not words[0].isdigit()):
        deck = _deck_of(words.pop(0))
        rows = deck.rows
    if arguments.line is not None:
        rows = [_row_at(deck, arguments.line)]
    if words and _means_slides(words, deck):
        rows, words = _rows_on(deck, " ".join(words), rows), []
    elif len(words) > 1 and deck is not None:
        rows, words = _words_on_slides(deck, words, rows)
    if arguments.lesson is not None:
        rows = with_lesson(_known_lesson(arguments.lesson), rows)
    if arguments.layer is not None:
        rows = with_layer(_known_layer(arguments.layer), rows)
    if words and rows:
        rows, others = _found(" ".join(words), rows)
    if not rows:
        raise UsageError("deck: no slide is of all that; leave something out.")
    _show(rows, arguments.lesson, ranked=bool(words))
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


def _means_slides(words, deck):
    """Whether words are numbers of slides, mistyped or not; 2018 alone, of no deck, is a word."""
    return all(re.fullmatch("[0-9][0-9,;:.\u2013-]*", word, re.ASCII) for word in words) and (
        deck is not None or not all(word.isdigit() for word in words))


def _rows_on(deck, span, rows):
    """The rows that are on a slide, or on the slides from the first to the last."""
    if deck is None:
        raise UsageError(f"deck: {printable(span)} is of no deck; write numformer deck C "
                         f"{printable(span)}, with one of {', '.join(DECKS)}.")
    found = SLIDES.fullmatch(span)
    first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not 1 <= first <= last <= len(deck.slides):
        raise UsageError(f"deck: {printable(shortened(span, 60))} must be a slide of deck "
                         f"{deck.letter}, from 1 to {len(deck.slides)}, or some, such as 3-5; a "
                         "line of its text is --line N.")
    return [row for row in rows if any(first <= slide.number <= last for slide in row.slides)]


def _words_on_slides(deck, words, rows):
    """Of "31-56 norm" the rows on these slides, and the words; of "104 languages" all, and both."""
    first, *others = words
    try:
        on_slides = _rows_on(deck, first, rows)
    except UsageError:
        return rows, words
    for chosen, text in ((on_slides, others), (rows, words)):
        try:
            if search(" ".join(text), chosen)[0] or chosen is on_slides:
                return chosen, text
        except LookupError:
            continue
    raise UsageError(f"deck: no row of {deck.letter} {printable(first)} names "
                     f"{printable(' '.join(others))}.")


def _known_lesson(number):
    known = sorted({int(name) for name in _named("notebook", ALL)})
    if number not in known:
        raise UsageError(f"deck: --lesson {number} is on no slide; choose from "
                         f"{', '.join(map(str, known))}.")
    return number


def _known_layer(name):
    known = layers_named()
    name = {each.lower(): each for each in known}.get(name.lower(), name)
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


def _show(rows, lesson=None, ranked=False):
    """The details of rows of one slide or heading; of others a list, and what they lead to.

    Found by words, the best row comes first; others are in the order of the decks.
    """
    if (set.intersection(*({(row.deck, slide) for slide in row.slides} for row in rows))
            or len({(row.deck, row.heading) for row in rows}) == 1):
        told = set()                                  # a correction is printed once
        for where, together in groupby(sorted(rows, key=lambda row: (row.deck, row.lines)),
                                       lambda row: f"{row.place}  {row.heading}"):
            print(where)
            for row in together:
                print(f"\n{row.title}")
                for label, lines in [*_leads(row), *_misprints(row, told), *_remarks(row)]:
                    for n, line in enumerate(lines):
                        print(f"  {'' if n else label:{INDENT}}{line}")
        return
    for letter, of_deck in groupby(rows, lambda row: row.deck):
        if not ranked:
            print(f"{letter}  {DECKS[letter].title}")
        for _, together in groupby(of_deck, lambda row: row.place if ranked else row.heading):
            together = list(together)
            heading = together[0].heading
            place = f"{letter} {numbers(together)}" if ranked else f"  {numbers(together)}"
            print(f"{place:10}{heading}")
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
    exercises = sorted(_named("exercise", rows), key=int)
    yield "lessons", sorted(_named("notebook", rows), key=int)
    yield "exercises", [each.name for each in (map(find_exercise, exercises) if lesson is None
                                               else exercises_of_lesson(lesson))]
    yield "exam", sorted(_named("exam", rows), key=lambda name: (int(name[:-1]), name))
    yield "experiments", _named("experiment", rows)
    yield "presets", [name.replace("-from-", " (from ", 1) + ")" * ("-from-" in name)
                      for name in _named("preset", rows)]
    yield "figures", [PurePosixPath(name).stem for row in rows for name in row.picture
                      if name.startswith("figures/")]
    yield "misprints", [row.place for row in rows if row.slips]


def _named(kind, rows):
    return [name.partition(":")[2] for row in rows for name in row.run
            if name.startswith(f"{kind}:")]


def _leads(row):
    """(label, lines) of what a row leads to."""
    yield "on it", _wrapped(row.keywords)
    yield "formula", [*row.formula, *([f"where {row.where}"] if row.where else [])]
    yield "code", [f"{name:35} {page(name)}" for name in row.code]
    yield "picture", [line for name in row.picture for line in _picture(name, row)]
    yield "run", [*commands_of(row), *(f"lesson {n}" for n in _named("notebook", [row]))]
    yield "exercises", _wrapped(find_exercise(name).name for name in _named("exercise", [row]))
    yield "exam", _wrapped(_named("exam", [row]))
    yield "tests", row.tests


def _misprints(row, told):
    """(label, lines) of the misprints of a row; what is right is said unless it is in `told`."""
    for place in dict.fromkeys(slip.place for slip in row.slips):
        for slip in row.slips:
            if slip.place == place:
                yield f"line {slip.line}", [slip.text]
        (_, claim, correction), = misprint(place)
        yield "the deck", wrap(claim, COLUMNS - INDENT)
        yield "right", ["as above"] if place in told else wrap(f"{correction} (CONVENTIONS.md)",
                                                               COLUMNS - INDENT)
        told.add(place)


def _remarks(row):
    yield "note", wrap(row.note, COLUMNS - INDENT)
    yield "no code", wrap(row.reason, COLUMNS - INDENT)


def _picture(name, row):
    yield f"{name:35} {how_to_draw(name, row.run)}"
    if name.startswith("plots."):
        yield f"  {page(name)}"
    yield from (f"  {line}" for line in wrap(PICTURES[name].shows, COLUMNS - INDENT - 2))


def _wrapped(names):
    return wrap(", ".join(names), COLUMNS - INDENT, break_on_hyphens=False)
