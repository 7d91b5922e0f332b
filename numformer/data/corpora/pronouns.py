"""Sentences whose pronoun means one of two nouns before it, in English and French.

Of things, "it" is what the adjective fits: an animal is tired, a street is wide. French has two
words for it, and so has to know: "il" for the masculine noun, "elle" for the feminine one. The two
nouns of a sentence have different genders.

Of people, "she" and "he" tell who is meant by themselves. Here the French repeats the name.

The first example of `reference` follows the sentence on the blog of Uszkoreit (2017), "Transformer:
A Novel Neural Network Architecture for Language Understanding".
"""

from itertools import chain
from typing import NamedTuple

from numformer.checks import check_choice, check_whole
from numformer.data.corpora.split import is_held_out
from numformer.data.world.integers import Integers

HELD_OUT_SHARE = 0.1
ANIMALS = {"animal": "l'animal", "dog": "le chien", "horse": "le cheval", "bear": "l'ours",
           "cow": "la vache", "goat": "la chèvre", "mouse": "la souris", "tortoise": "la tortue"}
PLACES = {"street": "la rue", "river": "la rivière", "beach": "la plage", "forest": "la forêt",
          "path": "le chemin", "garden": "le jardin", "bridge": "le pont", "field": "le champ"}
MEN, WOMEN = ("tom", "max", "paul", "leo", "jack", "ben"), (
    "clara", "rosa", "mary", "lucy", "nina", "grace")
# Masculine and feminine
OF_BODIES = {"tired": ("fatigué", "fatiguée"), "hungry": ("affamé", "affamée"),
             "old": ("vieux", "vieille"), "slow": ("lent", "lente"), "sick": ("malade", "malade"),
             "young": ("jeune", "jeune")}
OF_PLACES = {"wide": ("large", "large"), "long": ("long", "longue"), "dark": ("sombre", "sombre"),
             "narrow": ("étroit", "étroite"), "cold": ("froid", "froide"),
             "noisy": ("bruyant", "bruyante")}
# From an animal to a place, from a place to an animal, and between people
TO_PLACES = {"crossed": "a traversé", "did not cross": "n'a pas traversé", "left": "a quitté",
             "avoided": "a évité"}
TO_ANIMALS = {"stopped": "a arrêté", "did not stop": "n'a pas arrêté", "frightened": "a effrayé",
              "attracted": "a attiré"}
TO_PEOPLE = {"called": "a appelé", "did not call": "n'a pas appelé", "helped": "a aidé",
             "followed": "a suivi"}
_MASCULINE = {"animal", "dog", "horse", "bear", "path", "garden", "bridge", "field", *MEN}


class Reference(NamedTuple):
    """A sentence with a pronoun, and what the pronoun means.

    Parameters
    ----------
    english, french : str
    pronoun : int
        The position of "it", "she" or "he" among the words of the English sentence.
    nouns : (int, int)
        The positions of the two nouns or names.
    meant : int
        Which of them is meant: 0 or 1.
    """

    english: str
    french: str
    pronoun: int
    nouns: tuple
    meant: int


def reference(first, verb, second, pronoun, adjective):
    """The `Reference` of a sentence.

    Parameters
    ----------
    first, second : str
        An animal and a place, in any order, of different genders; or a man and a woman.
    verb : str
    pronoun : str
        "it", "she" or "he".
    adjective : str

    Returns
    -------
    Reference

    Raises
    ------
    ValueError
        If no such sentence can be made.

    Examples
    --------
    >>> told = reference("animal", "did not cross", "street", "it", "tired")
    >>> told.english
    'the animal did not cross the street because it was too tired'
    >>> told.french
    "l'animal n'a pas traversé la rue parce qu'il était trop fatigué"
    >>> told.pronoun, told.nouns, told.meant
    (8, (1, 6), 0)
    >>> reference("tom", "called", "clara", "she", "tired").french
    'tom a appelé clara parce que clara était trop fatiguée'
    """
    nouns, are_animals = (first, second), (first in ANIMALS, second in ANIMALS)
    of_people = {*nouns} <= {*MEN, *WOMEN}
    table = TO_PEOPLE if of_people else TO_PLACES if are_animals[0] else TO_ANIMALS
    fits = [adjective in (OF_PLACES if noun in PLACES else OF_BODIES) for noun in nouns]
    genders = [noun in _MASCULINE for noun in nouns]
    known = {*ANIMALS, *PLACES, *MEN, *WOMEN}
    if not (known >= {*nouns} and verb in table and genders[0] != genders[1]
            and (of_people or any(are_animals)) and (all(fits) if of_people else sum(fits) == 1)
            and pronoun in (("he", "she") if of_people else ("it",))):
        raise ValueError(f"reference: {first!r}, {verb!r}, {second!r}, {pronoun!r} and "
                         f"{adjective!r} make no sentence of this page, in which a pronoun means "
                         "one of two nouns.")
    meant = genders.index(pronoun == "he") if of_people else fits.index(True)
    the = "" if of_people else "the "
    english = f"{the}{first} {verb} {the}{second} because {pronoun} was too {adjective}"
    words = english.split()
    before = words.index("because")
    adjectives = (OF_PLACES | OF_BODIES)[adjective]
    own = nouns[meant]
    named = {**ANIMALS, **PLACES}.get
    again = f"que {own}" if of_people else "qu'il" if own in _MASCULINE else "qu'elle"
    french = (f"{named(first, first)} {table[verb]} {named(second, second)} parce {again} était "
              f"trop {adjectives[own not in _MASCULINE]}")
    return Reference(english, french, before + 1, (words.index(first), before - 1), meant)


def references(count, seed=0, held_out=False):
    """Sentences by rule, half of them with "it", half with "she" or "he".

    No two nouns with an adjective that are held out are in another sentence.

    Parameters
    ----------
    count : int
    seed : int
        0 or more.
    held_out : bool

    Returns
    -------
    list of Reference

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range.

    Examples
    --------
    >>> for each in references(3):
    ...     print(each.english)
    clara did not call paul because he was too tired
    nina followed leo because he was too old
    lucy followed ben because she was too hungry
    """
    check_whole("references", "count", count)
    check_whole("references", "seed", seed, least=0)
    check_choice("references", "held_out", held_out, [True, False])
    integers, found = Integers(2 * int(seed) + bool(held_out)), []
    while len(found) < count:
        nouns, verbs, pronouns, adjectives = _drawn(integers)
        adjective = integers.choice(adjectives)
        key = " ".join([*sorted(nouns), adjective])
        if is_held_out(key, HELD_OUT_SHARE) == held_out:
            found.append(reference(nouns[0], integers.choice(verbs), nouns[1],
                                   integers.choice(pronouns), adjective))
    return found


def _drawn(integers):
    """Two nouns, and the verbs, pronouns and adjectives to choose from."""
    if integers.below(2):
        nouns = integers.choice(MEN), integers.choice(WOMEN)
        return (nouns[::(1, -1)[integers.below(2)]], tuple(TO_PEOPLE), ("he", "she"),
                tuple(OF_BODIES))
    nouns = integers.choice(tuple(ANIMALS)), integers.choice(tuple(PLACES))
    while (nouns[0] in _MASCULINE) == (nouns[1] in _MASCULINE):
        nouns = integers.choice(tuple(ANIMALS)), integers.choice(tuple(PLACES))
    adjectives = tuple(chain(OF_BODIES, OF_PLACES))
    if integers.below(2):
        return nouns, tuple(TO_PLACES), ("it",), adjectives
    return nouns[::-1], tuple(TO_ANIMALS), ("it",), adjectives
