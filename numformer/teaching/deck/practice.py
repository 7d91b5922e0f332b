"""The exercises and exam questions that practise what is on the slides of a row."""

import tomllib
from functools import cache
from pathlib import Path

from numformer.teaching.exercise import all_exercises

_TABLE = tomllib.loads(Path(__file__).with_name("practice.toml").read_text(encoding="utf-8"))


@cache
def practised():
    """{"exercise:N" or "exam:NA": {(deck, first line of a row)}}, in order.

    Examples
    --------
    >>> sorted(practised()["exercise:11"])
    [('A', 487), ('A', 499), ('A', 505), ('B', 444), ('B', 584)]
    """
    exercises = {f"exercise:{int(exercise.name[:2])}": _places(
        _TABLE["exercises"].get(exercise.subject, "")) for exercise in all_exercises()}
    return exercises | {f"exam:{question}": _places(text)
                        for question, text in _TABLE["exam"].items()}


def practice_of(deck, line):
    """The exercises and exam questions of the row that begins with a line, in order.

    Examples
    --------
    >>> practice_of("B", 444)
    ('exercise:11', 'exercise:12', 'exam:5a', 'exam:18a')
    """
    return tuple(name for name, places in practised().items() if (deck, line) in places)


def _places(text):
    """{(deck, line)} of a text such as "A 39 130  B 26"."""
    places, deck = set(), None
    for word in text.split():
        if word.isalpha():
            deck = word
        else:
            places.add((deck, int(word)))
    return places
