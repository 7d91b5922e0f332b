"""English sentences with a word of two meanings, and French, which has a word for each.

The word is between the same words in both meanings ("she saw the bank"); what tells them apart is a
noun elsewhere in the sentence, before it or after it ("the water was red").
"""

from typing import NamedTuple

from numformer.checks import check_choice, check_whole
from numformer.data.corpora.split import is_held_out
from numformer.data.world.integers import Integers

HELD_OUT_SHARE = 0.1
# {word: {French: {noun that tells: its French}}}
AMBIGUOUS = {
    "bank": {"la rive": {"water": "l'eau", "boat": "le bateau", "fish": "le poisson"},
             "la banque": {"money": "l'argent", "coin": "la pièce", "cheque": "le chèque"}},
    "bat": {"la chauve-souris": {"cave": "la grotte", "night": "la nuit", "wing": "l'aile"},
            "la batte": {"ball": "la balle", "player": "le joueur", "team": "l'équipe"}},
    "match": {"l'allumette": {"candle": "la bougie", "flame": "la flamme", "smoke": "la fumée"},
              "le match": {"goal": "le but", "stadium": "le stade", "crowd": "la foule"}},
    "key": {"la clé": {"door": "la porte", "lock": "la serrure", "safe": "le coffre"},
            "la touche": {"piano": "le piano", "song": "la chanson", "music": "la musique"}},
    "nail": {"l'ongle": {"finger": "le doigt", "hand": "la main", "thumb": "le pouce"},
             "le clou": {"hammer": "le marteau", "wall": "le mur", "wood": "le bois"}},
    "seal": {"le phoque": {"sea": "la mer", "ice": "la glace", "island": "l'île"},
             "le sceau": {"letter": "la lettre", "wax": "la cire", "king": "le roi"}},
}
PEOPLE = {"he": "il", "she": "elle"}
VERBS = {"saw": "a vu", "found": "a trouvé", "showed": "a montré", "described": "a décrit"}
# The same for both genders
ADJECTIVES = {"red": "rouge", "yellow": "jaune", "dirty": "sale", "huge": "énorme", "rare": "rare"}


class Sense(NamedTuple):
    """A sentence with an ambiguous word.

    Parameters
    ----------
    english, french : str
    word : str
        The ambiguous one.
    at : int
        Its position among the words of the English sentence.
    sense : str
        Its French, with the article.
    """

    english: str
    french: str
    word: str
    at: int
    sense: str


def senses(count, seed=0, held_out=False):
    """Sentences by rule with ambiguous words.

    No verb, ambiguous word, telling noun and adjective that are held out together are in another
    sentence.

    Parameters
    ----------
    count : int
    seed : int
        0 or more.
    held_out : bool

    Returns
    -------
    list of Sense

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range.

    Examples
    --------
    >>> for each in senses(2):
    ...     print(f"{each.english} -> {each.french}")
    she found the bank and the money was yellow -> elle a trouvé la banque et l'argent était jaune
    the island was dirty and she saw the seal -> l'île était sale et elle a vu le phoque
    """
    check_whole("senses", "count", count)
    check_whole("senses", "seed", seed, least=0)
    check_choice("senses", "held_out", held_out, [True, False])
    integers, found = Integers(2 * int(seed) + bool(held_out)), []
    while len(found) < count:
        who, verb, word = (integers.choice(tuple(table)) for table in (PEOPLE, VERBS, AMBIGUOUS))
        sense = integers.choice(tuple(AMBIGUOUS[word]))
        noun, adjective = (integers.choice(tuple(table)) for table in (
            AMBIGUOUS[word][sense], ADJECTIVES))
        first = integers.below(2)
        if is_held_out(f"{verb} {word} {noun} {adjective}", HELD_OUT_SHARE) == held_out:
            parts = (f"{who} {verb} the {word}", f"the {noun} was {adjective}")
            french = (f"{PEOPLE[who]} {VERBS[verb]} {sense}",
                      f"{AMBIGUOUS[word][sense][noun]} était {ADJECTIVES[adjective]}")
            order = (1, -1)[first]
            found.append(Sense(" and ".join(parts[::order]), " et ".join(french[::order]), word,
                               3 + 5 * first, sense))
    return found
