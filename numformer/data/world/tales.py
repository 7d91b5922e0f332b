"""Tales with everything that is known about them: the public functions of the small world."""

from typing import NamedTuple

from numformer.checks import check_choice, check_whole
from numformer.data.world.cast import (
    ADJECTIVES, PEOPLE, LOCATIONS, Thing, pair_is_held_out)
from numformer.data.world.integers import Integers
from numformer.data.world.plots import PLOTS, with_adjective
from numformer.data.world.scenes import SCENES
from numformer.data.world.telling import Teller

MOST_SEEDS = 2**32
_PLOT_OF = tuple(PLOTS)
_SCENERY = tuple(Thing(noun + "s" * plural, plural=plural)
                 for noun in ("lamp", "table", "chair", "door", "tree") for plural in (False, True))
_OPENINGS = (
    "one morning {a} and {b} went to {place} .", "on a cold day {a} met {b} at {place} .",
    "{a} and {b} lived/VERB near {place} .", "in summer {a} went to {place} with {b} .",
    "{a} met {b} and {a+b} went to {place} .", "{a} was at {place} when {b} came by/ADV .")
_CLOSINGS = (
    "{s.the} that/PRON {p} near the {o} saw {were:s} {end} .",
    "now {s.the} behind the {o} of {p} {are:s} {end} .",
    "{s.the} that/PRON {p} and the {m} liked {have:s} been/AUX there for a week .",
    "{p} knows/VERB that/SCONJ {s.the} near the {o} {lie:s} there again .")
_ENDS = ("old", "still there", "clean again", "safe", "dusty", "white")


class Question(NamedTuple):
    """A question about a tale: its words, those of the answer, the answer's tokens in the tale
    (first, past the last), and what kind of answer it is: PERSON, PLACE, THING or NUMBER."""

    words: tuple
    answer: tuple
    span: tuple
    kind: str


class Claim(NamedTuple):
    """A hypothesis about a premise, which are the tokens (first, past the last) of some sentences:
    the label is "entailment", "contradiction" or "neutral"."""

    premise: tuple
    hypothesis: tuple
    label: str


class Tale(NamedTuple):
    """A tale, token by token.

    Parameters
    ----------
    words, tags, entities : tuple of str
        Of each token: the word, its part of speech (`TAGS`), and its entity label (`ENTITIES`).
    senses : tuple of str
        Of each token: "bank.river", or "" for a word with one sense.
    referents : tuple of int
        Of each pronoun: the last token of the name or noun that it refers to; -1 elsewhere. The
        first of two people for "they".
    heads : tuple of int
        Of each verb that agrees with its subject: the subject's noun; -1 elsewhere.
    sentences : tuple of (int, int)
        Tokens of each sentence: first, past the last.
    questions : tuple of Question
    claims : tuple of Claim
    summary : tuple of str
        The words of one sentence.
    plot : str
        "count", "transfer", "hide" or "lose".
    """

    words: tuple
    tags: tuple
    entities: tuple
    senses: tuple
    referents: tuple
    heads: tuple
    sentences: tuple
    questions: tuple
    claims: tuple
    summary: tuple
    plot: str

    @property
    def text(self):
        """The sentences as text."""
        return joined(self.words)


def joined(words):
    """Words as text: no space before a mark.

    Examples
    --------
    >>> joined(["anna", "had", "a", "ball", ",", "too", "."])
    'anna had a ball, too.'
    """
    return "".join(word if word in ".,?" or not n else f" {word}" for n, word in enumerate(words))


def tale(seed, held_out=False):
    """The tale of a seed: a pure function, the same on every Python.

    Parameters
    ----------
    seed : int
        0 or more.
    held_out : bool
        Tell a tale for evaluation: its first person and its main thing are a pair that no training
        tale has.

    Returns
    -------
    Tale

    Raises
    ------
    ValueError
        If the seed is no whole number of 0 or more.

    Examples
    --------
    >>> told = tale(8)
    >>> told.plot, told.text[:52]
    ('transfer', 'on a cold day clara met mark at the garden. clara br')
    >>> question = told.questions[0]
    >>> joined(question.words), question.answer
    ('who had the spade first?', ('clara',))
    """
    check_whole("tale", "seed", seed, least=0)
    check_choice("tale", "held_out", held_out, [True, False])
    integers, teller = Integers(2 * int(seed) + bool(held_out)), Teller()
    plot = integers.choice(_PLOT_OF)
    people = x = None
    while x is None or pair_is_held_out(people[0], x) != held_out:
        people, x = integers.sample(PEOPLE, 3), integers.choice(PLOTS[plot])
    a, b, c = people
    teller.tell(integers.choice(_OPENINGS), a=a, b=b, place=integers.choice(LOCATIONS))
    scene_first = integers.below(2)
    if scene_first:
        _scene(teller, integers, a, b)
    told = plot(teller.tell, integers, a, b, c, with_adjective(integers, x, ADJECTIVES),
                len(teller.sentences))
    if not scene_first and integers.below(4):
        _scene(teller, integers, a, b)
    if integers.below(2):
        _close(teller, integers, x, c)
    words, bounds = tuple(teller.words), teller.sentences
    return Tale(
        words, tuple(teller.tags), tuple(teller.entities), tuple(teller.senses),
        tuple(teller.referents), tuple(teller.heads), tuple(bounds),
        tuple(Question(_words(text, cast), words[slice(*span)], span, kind)
              for text, cast, span, kind in told.questions),
        tuple(Claim((bounds[first][0], bounds[last - 1][1]), _words(text, cast), label)
              for (first, last), text, cast, label in told.claims),
        _words(*told.summary), plot.__name__)


def tales(count, seed=0, held_out=False):
    """So many tales; another seed gives others. See `tale`.

    Parameters
    ----------
    count : int
        At most 2**32.
    seed : int
        0 or more.
    held_out : bool

    Returns
    -------
    list of Tale

    Examples
    --------
    >>> [told.plot for told in tales(3, seed=1)]
    ['lose', 'hide', 'count']
    """
    check_whole("tales", "count", count)
    check_whole("tales", "seed", seed, least=0)
    if count > MOST_SEEDS:
        raise ValueError(f"tales: count={count} must be at most 2**32; use another seed for more.")
    return [tale(seed * MOST_SEEDS + n, held_out) for n in range(count)]


def world_tokens(count, seed=0, held_out=False, summaries=True):
    """The words of `tales` in a row, each tale followed by its summary where `summaries` is true.

    Returns
    -------
    list of str
    """
    return [word for told in tales(count, seed, held_out)
            for word in told.words + (told.summary if summaries else ())]


def world_text(count, seed=0, held_out=False, summaries=True):
    """The text of `tales`: a paragraph each, whose last sentence is its summary.

    Parameters
    ----------
    count, seed, held_out
        As in `tales`.
    summaries : bool
        Whether each tale ends with its summary.

    Returns
    -------
    str

    Examples
    --------
    >>> world_text(2, seed=3)[-40:]
    ' nora lost the spade and grace found it.'
    """
    return "\n\n".join(joined(told.words + (told.summary if summaries else ()))
                       for told in tales(count, seed, held_out))


def _scene(teller, integers, a, b):
    """An ambiguous word, in a frame that all its senses share, and a clue."""
    scene = integers.choice(SCENES)
    sense = integers.choice(tuple(scene.clues))
    frame = integers.choice(scene.frames).replace("@", f"{scene.word}/{sense}")
    pair = [integers.choice(scene.clues[sense]), frame]
    if not scene.clue_first and integers.below(2):
        pair.reverse()
    for template in pair:
        teller.tell(template, a=a, b=b)


def _close(teller, integers, x, person):
    """A sentence in which other nouns are between a verb and its subject."""
    subject = integers.choice((x, integers.choice(_SCENERY)))
    other = integers.choice([each for each in _SCENERY if each.noun[:3] != subject.noun[:3]])
    crowd = integers.choice(("women", "men", "girl", "boy", "friend"))
    template = integers.choice(_CLOSINGS).replace("{o}", other.noun).replace("{m}", crowd)
    teller.tell(template.replace("{end}", integers.choice(_ENDS)), p=person, s=subject)


def _words(template, cast):
    """The words of a question, a hypothesis or a summary, told on its own."""
    teller = Teller()
    teller.tell(template, **cast)
    return tuple(teller.words)
