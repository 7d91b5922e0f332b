"""Numbers from 0 to 999,999 in English words and in French words: a small translation whose order differs.

**English** is British: "and" after the hundreds, a hyphen between tens and ones, no comma after the thousands.

**French** is that of France in the traditional spelling: a hyphen only between parts below a hundred that no "et" joins, a
space elsewhere ("vingt et un", "deux cent quatre-vingt-dix-sept"); the spelling of 1990 would join all of them.

- 21, 31, 41, 51, 61 and 71 have "et": "vingt et un", "soixante et onze"; 81 and 91 do not.
- 70 to 79 are sixty and 10 to 19, 80 to 99 are four twenties and 0 to 19.
- "Vingt" (in 80) and "cent" take an s if multiplied and last: "quatre-vingts", "deux cents", but "deux cent un"; and neither
  before "mille": "quatre-vingt mille", "deux cent mille".
- "Mille" never changes, and 1000 is "mille" without "un", as 100 is "cent".

References
----------
Dictionnaire de l'Académie française, 9th edition, entries "cent", "mille", "vingt". Grevisse and Goosse, "Le Bon Usage",
the chapter on cardinal numerals. The other spelling: Conseil supérieur de la langue française, "Les rectifications de
l'orthographe", Journal officiel of 6 December 1990, the rule on hyphens in numerals.
"""

import re
from functools import lru_cache

import numpy as np

from numformer.checks import check_choice, check_whole

LARGEST = 999_999
HELD_OUT = 1000
_EN_SMALL = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
             "eighteen nineteen").split()
_EN_TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()
_FR_SMALL = ("zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit "
             "dix-neuf").split()
_FR_TENS = "- - vingt trente quarante cinquante soixante soixante quatre-vingt quatre-vingt".split()


def english(number):
    """A number in English words.

    Parameters
    ----------
    number : int, 0 .. 999,999

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If the number lies outside.

    Examples
    --------
    >>> [english(n) for n in (0, 97, 100, 123_045)]
    ['zero', 'ninety-seven', 'one hundred', 'one hundred and twenty-three thousand and forty-five']
    """
    _check_number("english", number)
    thousands, rest = divmod(int(number), 1000)
    words = [_english_below_1000(thousands), "thousand"] if thousands else []
    if thousands and 0 < rest < 100:
        words.append("and")
    if rest or not thousands:
        words.append(_english_below_1000(rest))
    return " ".join(words)


def _english_below_1000(number):
    hundreds, rest = divmod(number, 100)
    words = [_EN_SMALL[hundreds], "hundred"] if hundreds else []
    if hundreds and rest:
        words.append("and")
    if rest >= 20:
        tens, ones = divmod(rest, 10)
        words.append(_EN_TENS[tens] + (f"-{_EN_SMALL[ones]}" if ones else ""))
    elif rest or not hundreds:
        words.append(_EN_SMALL[rest])
    return " ".join(words)


def french(number):
    """A number in French words, traditional spelling.

    Parameters
    ----------
    number : int, 0 .. 999,999

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If the number lies outside.

    Examples
    --------
    >>> [french(n) for n in (71, 80, 97, 200, 1000)]
    ['soixante et onze', 'quatre-vingts', 'quatre-vingt-dix-sept', 'deux cents', 'mille']
    >>> french(280_281)
    'deux cent quatre-vingt mille deux cent quatre-vingt-un'
    """
    _check_number("french", number)
    thousands, rest = divmod(int(number), 1000)
    words = [_french_below_1000(thousands, last=False)] if thousands > 1 else []
    if thousands:
        words.append("mille")
    if rest or not thousands:
        words.append(_french_below_1000(rest, last=True))
    return " ".join(words)


def _french_below_1000(number, last):
    """`last`: nothing follows, so that "cent" and "vingt" may take their s."""
    hundreds, rest = divmod(number, 100)
    words = [_FR_SMALL[hundreds]] if hundreds > 1 else []
    if hundreds:
        words.append("cents" if hundreds > 1 and not rest and last else "cent")
    if rest or not hundreds:
        words.append(_french_below_100(rest, last))
    return " ".join(words)


def _french_below_100(number, last):
    if number < 20:
        return _FR_SMALL[number]
    tens, ones = divmod(number, 10)
    if tens in (7, 9):                                                # sixty and ten, four twenties and ten
        ones += 10
    if not ones:
        return _FR_TENS[tens] + ("s" if tens == 8 and last else "")
    joint = " et " if ones in (1, 11) and tens < 8 else "-"
    return _FR_TENS[tens] + joint + _FR_SMALL[ones]


LANGUAGES = {"english": english, "french": french}


def number_pairs(n, seed):
    """Numbers to train on, in English and in French: all short ones, and others drawn without repetition.

    Numbers below 1,000 would be one in a thousand if all were drawn alike, and the model would hardly see "zero". So all
    of them that are not held out are there.

    Parameters
    ----------
    n : int, 1,000 .. 900,000
        How many pairs.
    seed : int

    Returns
    -------
    list of (str, str)
        In random order, every number once, none of them held out.

    Raises
    ------
    ValueError
        If `n` lies outside.

    Examples
    --------
    >>> number_pairs(1000, seed=0)[:2]
    [('four hundred and sixty', 'quatre cent soixante'), ('two hundred and six', 'deux cent six')]
    """
    check_whole("number_pairs", "n", n, least=1000)
    check_whole("number_pairs", "seed", seed, least=0)
    if n > 900_000:
        raise ValueError(f"number_pairs: n={n} must be at most 900,000; there are no more than a million numbers.")
    rng, mine = np.random.default_rng([seed, 0]), np.ones(LARGEST + 1, bool)
    mine[_held_out()] = False
    short = np.flatnonzero(mine[:1000])
    long = 1000 + np.flatnonzero(mine[1000:])
    numbers = np.concatenate([short, rng.choice(long, size=n - len(short), replace=False)])
    return [(english(number), french(number)) for number in rng.permutation(numbers).tolist()]


def held_out_numbers():
    """The 1,000 numbers that no training pair holds, in English and in French.

    They are drawn once for all from 100 .. 999,999, all alike. Every number below a hundred is for training: these are the
    words of which the others are made, and nobody can guess "quinze".

    Returns
    -------
    list of (str, str)

    Examples
    --------
    >>> pairs = held_out_numbers()
    >>> len(pairs), pairs[0]
    (1000, ('four hundred', 'quatre cents'))
    """
    return [(english(number), french(number)) for number in _held_out().tolist()]


@lru_cache(maxsize=None)
def _held_out():
    return np.sort(100 + np.random.default_rng(0).choice(LARGEST - 99, size=HELD_OUT, replace=False))


def number_pieces(text):
    """Cut number words into pieces, so that "quatre-vingt-dix-sept" is four of them: a hyphen stays with what follows.

    The pieces say where a space was, so `number_text` puts them together again.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of str

    Raises
    ------
    ValueError
        If the text is not words of small letters with one space or hyphen between.

    Examples
    --------
    >>> number_pieces("deux cent quatre-vingt-dix-sept")
    ['deux', 'cent', 'quatre', '-vingt', '-dix', '-sept']
    """
    if not isinstance(text, str) or not re.fullmatch(r"[a-zé]+([ -][a-zé]+)*", text):
        raise ValueError(f"number_pieces: text={text!r} must be words of small letters with one space or hyphen between them.")
    return re.findall(r"-?[a-zé]+", text)


def number_text(pieces):
    """Put the pieces of `number_pieces` together.

    Examples
    --------
    >>> number_text(['deux', 'cent', 'quatre', '-vingt', '-dix', '-sept'])
    'deux cent quatre-vingt-dix-sept'
    """
    return "".join(piece if piece.startswith("-") else f" {piece}" for piece in pieces).removeprefix(" ")


@lru_cache(maxsize=None)
def number_vocabulary(language):
    """All pieces of the numbers of a language, sorted.

    Parameters
    ----------
    language : str
        "english" or "french".

    Returns
    -------
    tuple of str

    Raises
    ------
    ValueError
        If the language is another.

    Examples
    --------
    >>> len(number_vocabulary("english")), len(number_vocabulary("french"))
    (40, 44)
    """
    check_choice("number_vocabulary", "language", language, LANGUAGES)
    write = LANGUAGES[language]
    return tuple(sorted({piece for number in range(1001) for piece in number_pieces(write(number))}))


def _check_number(owner, number):
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or not 0 <= number <= LARGEST:
        raise ValueError(f"{owner}: number={number!r} must be a whole number in 0 .. {LARGEST}.")
