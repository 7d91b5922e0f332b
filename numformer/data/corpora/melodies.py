"""Melodies by rule, written in ABC notation: the same bytes on every machine.

A melody has four phrases of two bars. The second is the first again, perhaps a step of the scale
higher or lower; the third is new and ends on the fifth; the fourth begins as the first, and ends
with a cadence on the tonic. To continue one, a model must count in every bar, copy and transpose a
phrase, and find the key at the end.
"""

import re
from typing import NamedTuple

from numformer.checks import check_choice, check_whole
from numformer.data.corpora.split import is_held_out
from numformer.data.world.integers import Integers

HELD_OUT_SHARE = 0.1
NOTES = "CDEFGABcdefgab"                              # two octaves: steps of a scale, 0 to 13
KEYS = "CDEFGA"                                       # of major scales: their tonics are 0 to 5
EIGHTHS = {"3/4": 6, "4/4": 8, "6/8": 6}              # of a bar, by metre
# Rhythms of a bar, and of the last one: eighths of each note
RHYTHMS = {
    "3/4": ("222", "42", "312", "2112", "1122", "2211"),
    "4/4": ("2222", "422", "3122", "2114", "11222", "21122"),
    "6/8": ("33", "213", "2121", "1113", "321", "11121"),
}
CLOSES = {"3/4": ("24", "114"), "4/4": ("44", "224"), "6/8": ("33", "213")}
# Notes as steps above the tonic
STARTS = 0, 2, 4                                      # where a melody begins
STEPS = -2, -1, -1, 1, 1, 2                           # from a note to the next
TOP = 6                                               # of a phrase that is new
MOVES = -1, 0, 0, 1                                   # of the second phrase
FIFTH = 4
CADENCES = {2: ((1, 0), (4, 0)), 3: ((2, 1, 0), (4, 1, 0))}           # by how many notes
BEGINNING, END = "X:1\n", "]\n"                       # of a text
RULES = "form", "bars", "second_phrase", "returns", "tonic"
_BAR = r"(?:[A-Ga-g][1-9]?)+\|"
_MELODY = re.compile(rf"X:1\nM:(3/4|4/4|6/8)\nK:([A-G])\n((?:(?:{_BAR})+\n)*(?:{_BAR})+)\]\n")


class Melody(NamedTuple):
    """A melody.

    Parameters
    ----------
    metre : str
        "3/4", "4/4" or "6/8".
    key : str
        The tonic of its major scale, a letter.
    phrases : tuple
        A phrase is a tuple of bars, a bar a tuple of notes (number, eighths): the note's number in
        `NOTES`, and its length.
    """

    metre: str
    key: str
    phrases: tuple


def melodies(count, seed=0, held_out=False):
    """Melodies by rule; another seed gives others.

    No held-out melody is among the others, in whatever key.

    Parameters
    ----------
    count : int
    seed : int
        0 or more.
    held_out : bool

    Returns
    -------
    list of Melody

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range.

    Examples
    --------
    >>> print(melody_text(*melodies(1)), end="")
    X:1
    M:6/8
    K:E
    EGFE2F|EFGA2B|
    EGFE2F|EFGA2B|
    A3G2B|dBAB3|
    EGFE2F|F3E3|]
    """
    check_whole("melodies", "count", count)
    check_whole("melodies", "seed", seed, least=0)
    check_choice("melodies", "held_out", held_out, [True, False])
    integers, found = Integers(2 * int(seed) + bool(held_out)), []
    while len(found) < count:
        metre, tonic = integers.choice(tuple(RHYTHMS)), integers.below(len(KEYS))
        phrases = _phrases(metre, integers)
        if is_held_out(f"{metre} {phrases}", HELD_OUT_SHARE) == held_out:
            moved = tuple(_moved(phrase, tonic) for phrase in phrases)
            found.append(Melody(metre, KEYS[tonic], moved))
    return found


def melody_text(melody):
    r"""A melody in ABC notation, a phrase a line.

    ``M`` is the metre, ``K`` the key. A letter is a note, an octave higher if it is small; the
    number after it is its length in eighths, if it is not 1. The sharps and flats are those of the
    key. What plays ABC notation plays it.

    References
    ----------
    Walshaw (2011), "The abc music standard 2.1".

    Examples
    --------
    >>> melody_text(Melody("3/4", "G", ((((4, 2), (5, 1), (6, 3)), ((4, 6),)),)))
    'X:1\nM:3/4\nK:G\nG2AB3|G6|]\n'
    """
    lines = "\n".join("".join(_bar_text(bar) for bar in phrase) for phrase in melody.phrases)
    return f"X:1\nM:{melody.metre}\nK:{melody.key}\n{lines}]\n"


def read_melody(text):
    r"""The melody of a text such as `melody_text` writes, whether it keeps rules or not; or None.

    Examples
    --------
    >>> read_melody('X:1\nM:3/4\nK:G\nG2AB3|G6|]\n')
    Melody(metre='3/4', key='G', phrases=((((4, 2), (5, 1), (6, 3)), ((4, 6),)),))
    >>> read_melody('X:1\nM:3/4\nK:G\nG2AB3|H6|]\n')                  # there is no note H
    """
    found = _MELODY.fullmatch(text)
    if found is None:
        return None
    metre, key, lines = found.groups()
    return Melody(metre, key, tuple(tuple(map(_bar, line.split("|")[:-1]))
                                    for line in lines.split("\n")))


def melody_rules(text):
    r"""Which rules a text keeps: all of `RULES` if `melody_text` could have written it.

    Returns
    -------
    dict of str to bool
        ``form``: four phrases of two bars. ``bars``: the notes of every bar add up to the metre.
        ``second_phrase``: it is the first, or the first with all notes moved by as many steps.
        ``returns``: the last phrase begins with the first bar of the first. ``tonic``: the last
        note is that of the key. A text that is no melody keeps none.

    Examples
    --------
    >>> melody_rules('X:1\nM:3/4\nK:G\nG2A2B2|G6|\nA2B2c2|A6|]\n')
    {'form': False, 'bars': True, 'second_phrase': True, 'returns': False, 'tonic': False}
    """
    melody = read_melody(text)
    if melody is None:
        return dict.fromkeys(RULES, False)
    (first, *others), last = melody.phrases, melody.phrases[-1]
    bars = [bar for phrase in melody.phrases for bar in phrase]
    return dict(zip(RULES, (
        [len(phrase) for phrase in melody.phrases] == [2] * 4,
        all(sum(eighths for _, eighths in bar) == EIGHTHS[melody.metre] for bar in bars),
        bool(others) and others[0] == _moved(first, others[0][0][0][0] - first[0][0][0]),
        bool(others) and last[0] == first[0],
        last[-1][-1][0] % 7 == NOTES.index(melody.key))))


def _phrases(metre, integers):
    """The phrases of a melody, as steps above the tonic."""
    first = _phrase(metre, integers.choice(STARTS), integers)
    lowest = min(note for bar in first for note, _ in bar)
    second = _moved(first, integers.choice([move for move in MOVES if lowest + move >= 0]))
    third = _phrase(metre, integers.below(TOP + 1), integers)
    *before, (_, eighths) = third[-1]
    third = (third[0], (*before, (FIFTH, eighths)))
    rhythm = integers.choice(CLOSES[metre])
    cadence = integers.choice(CADENCES[len(rhythm)])
    return first, second, third, (first[0], tuple(zip(cadence, map(int, rhythm))))


def _phrase(metre, note, integers):
    """Two bars that begin with a note and move by steps, between the tonic and `TOP`."""
    bars = []
    for rhythm in (integers.choice(RHYTHMS[metre]) for _ in range(2)):
        bar = []
        for eighths in map(int, rhythm):
            bar.append((note, eighths))
            step = integers.choice(STEPS)
            note += step if 0 <= note + step <= TOP else -step
        bars.append(tuple(bar))
    return tuple(bars)


def _moved(phrase, steps):
    return tuple(tuple((note + steps, eighths) for note, eighths in bar) for bar in phrase)


def _bar_text(bar):
    return "".join(f"{NOTES[note]}{eighths if eighths > 1 else ''}" for note, eighths in bar) + "|"


def _bar(text):
    return tuple((NOTES.index(name), int(eighths or 1))
                 for name, eighths in re.findall(r"([A-Ga-g])(\d?)", text))
