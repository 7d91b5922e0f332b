"""Who and what appears in tales: people, things, places; and which pairs are held out."""

from typing import NamedTuple


class Person(NamedTuple):
    """A person: the words of the name, and "f" or "m"."""

    words: tuple
    gender: str


class Thing(NamedTuple):
    """A thing, or several: the noun, an adjective or "", and whether it is plural."""

    noun: str
    adjective: str = ""
    plural: bool = False


class Place(NamedTuple):
    """A place: its words without the article."""

    words: tuple


PEOPLE = tuple(
    Person(tuple(name.split()), gender)
    for gender, names in (
        ("f", "anna,clara,ella,nora,lucy,rose,may,grace,mrs reed,miss hill,aunt joan"),
        ("m", "tom,jack,ben,sam,leo,max,will,mark,mr wood,mr reed,uncle paul"))
    for name in names.split(","))
THINGS = tuple(
    Thing(noun, plural=plural)
    for plural, nouns in ((False, "ball kite cup doll drum hat whistle spade"),
                          (True, "keys gloves boots skates"))
    for noun in nouns.split())
COUNTED = tuple(Thing(noun, plural=True) for noun in
                "apples pears eggs shells stones buttons coins nuts cakes books".split())
ADJECTIVES = ("red", "blue", "green", "small", "big", "new")
HOLDERS = tuple(map(Thing, "box basket bag drawer bucket cupboard".split()))
LOCATIONS = tuple(Place(tuple(name.split())) for name in (
    "park,market,school,farm,garden,harbour,library,river,town hall,train station,old mill,"
    "apple farm").split(","))

MODULUS = 5                                           # one pair in five is held out
_PERSON_ROW = {person: row for row, person in enumerate(PEOPLE)}
_THING_ROW = {thing.noun: row for row, thing in enumerate(THINGS + COUNTED)}


def pair_is_held_out(person, thing):
    """Whether tales with this first person and this main thing are for evaluation alone.

    Each person and each thing is in pairs of both parts, so that every word is known, but who had
    what cannot be remembered from training.

    Examples
    --------
    >>> pair_is_held_out(PEOPLE[0], THINGS[0]), pair_is_held_out(PEOPLE[1], THINGS[0])
    (True, False)
    """
    return (2 * _PERSON_ROW[person] + _THING_ROW[thing.noun]) % MODULUS == 0
