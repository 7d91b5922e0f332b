"""Numbers from 0 to 999,999 in English words and in French words: a small translation.

**English** is British: "and" after the hundreds, a hyphen between tens and ones, no comma after the
thousands.

**French** is that of France in the traditional spelling: a hyphen only between parts below a
hundred that no "et" joins, a space elsewhere ("vingt et un", "deux cent quatre-vingt-dix-sept");
the spelling of 1990 would join all of them.

- 21, 31, 41, 51, 61 and 71 have "et": "vingt et un", "soixante et onze"; 81 and 91 do not.
- 70 to 79 are sixty and 10 to 19, 80 to 99 are four twenties and 0 to 19.
- "Vingt" (in 80) and "cent" take an s if multiplied and last: "quatre-vingts", "deux cents", but
  "deux cent un"; and neither before "mille": "quatre-vingt mille", "deux cent mille".
- "Mille" never changes, and 1000 is "mille" without "un", as 100 is "cent".

References
----------
Dictionnaire de l'Académie française, 9th edition, entries "cent", "mille", "vingt". Grevisse and
Goosse, "Le Bon Usage", the chapter on cardinal numerals. The other spelling: Conseil supérieur de
la langue française, "Les rectifications de l'orthographe", Journal officiel of 6 December 1990,
the rule on hyphens in numerals.
"""

import re
from functools import lru_cache

import numpy as np

from numformer.checks import check_choice, check_whole

LARGEST = 999_999
HELD_OUT = 1000
_EN_SMALL = ("zero one two three four five six seven eight nine ten eleven twelve thirteen "
             "fourteen fifteen sixteen seventeen eighteen nineteen").split()
_EN_TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()
_FR_SMALL = ("zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze "
             "quinze seize dix-sept dix-huit dix-neuf").split()
_FR_TENS = ("- - vingt trente quarante cinquante soixante soixante quatre-vingt "
            "quatre-vingt").split()


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
        If the number is out of range.

    Examples
    --------
    >>> [english(n) for n in (0, 97, 100)]
    ['zero', 'ninety-seven', 'one hundred']
    >>> english(123_045)
    'one hundred and twenty-three thousand and forty-five'
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
        If the number is out of range.

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
    if tens in (7, 9):                                                # 60 and 10, 4 times 20 and 10
        ones += 10
    if not ones:
        return _FR_TENS[tens] + ("s" if tens == 8 and last else "")
    joint = " et " if ones in (1, 11) and tens < 8 else "-"
    return _FR_TENS[tens] + joint + _FR_SMALL[ones]


LANGUAGES = {"english": english, "french": french}


def number_pairs(n, seed):
    """Numbers to train on, in English and in French: all below 1,000, and a sample of the others.

    In a uniform sample, one number in a thousand would be below 1,000, and the model would hardly
    see "zero". So all of them that are not held out are included.

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
        If `n` is out of range.

    Examples
    --------
    >>> number_pairs(1000, seed=0)[:2]
    [('four hundred and sixty', 'quatre cent soixante'), ('two hundred and six', 'deux cent six')]
    """
    check_whole("number_pairs", "n", n, least=1000)
    check_whole("number_pairs", "seed", seed, least=0)
    if n > 900_000:
        raise ValueError(f"number_pairs: n={n} must be at most 900,000; "
                         "there are no more than a million numbers.")
    rng, in_training = np.random.default_rng([seed, 0]), np.ones(LARGEST + 1, bool)
    in_training[_held_out()] = False
    short = np.flatnonzero(in_training[:1000])
    long = 1000 + np.flatnonzero(in_training[1000:])
    numbers = np.concatenate([short, rng.choice(long, size=n - len(short), replace=False)])
    return [(english(number), french(number)) for number in rng.permutation(numbers).tolist()]


def held_out_numbers():
    """The 1,000 numbers that are in no training pair, in English and in French.

    They are a fixed uniform sample of 100 .. 999,999. All numbers below a hundred are for training:
    the others are composed of their words, and no model can guess "quinze".

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
    rng = np.random.default_rng(0)
    return np.sort(100 + rng.choice(LARGEST - 99, size=HELD_OUT, replace=False))


def number_tokens(text):
    """Split number words into tokens; a hyphen belongs to the token after it.

    So "quatre-vingt-dix-sept" has four tokens, and `number_text` can restore the text.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of str

    Raises
    ------
    ValueError
        If the text is not lower-case words with one space or hyphen between them.

    Examples
    --------
    >>> number_tokens("deux cent quatre-vingt-dix-sept")
    ['deux', 'cent', 'quatre', '-vingt', '-dix', '-sept']
    """
    if not isinstance(text, str) or not re.fullmatch(r"[a-zé]+([ -][a-zé]+)*", text):
        raise ValueError(f"number_tokens: text={text!r} must be lower-case words with one space or "
                         "hyphen between them.")
    return re.findall(r"-?[a-zé]+", text)


def number_text(tokens):
    """Join the tokens of `number_tokens`.

    Examples
    --------
    >>> number_text(['deux', 'cent', 'quatre', '-vingt', '-dix', '-sept'])
    'deux cent quatre-vingt-dix-sept'
    """
    spaced = (token if token.startswith("-") else f" {token}" for token in tokens)
    return "".join(spaced).removeprefix(" ")


@lru_cache(maxsize=None)
def number_vocabulary(language):
    """All tokens of the numbers of a language, sorted.

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
    tokens = {token for number in range(1001) for token in number_tokens(write(number))}
    return tuple(sorted(tokens))


def _check_number(owner, number):
    is_whole = isinstance(number, (int, np.integer)) and not isinstance(number, bool)
    if not is_whole or not 0 <= number <= LARGEST:
        raise ValueError(f"{owner}: number={number!r} must be a whole number in 0 .. {LARGEST}.")
