"""Captions of digits by rule: several phrasings, some of which are kept for the test."""

from numformer.checks import check_choice, check_whole

NAMES = "zero one two three four five six seven eight nine".split()
PHRASINGS = (                                                         # {} is the word or the figure
    "a photo of the digit {}", "the number {}, drawn by rule", "a drawn {}",
    "this is a {}", "someone drew the figure {}", "{}", "the digit {} in ink",
)
HELD_OUT_PHRASING = "the figure {}, a photo in ink"


def digit_caption(label, phrasing, figure=False):
    """A caption of a digit.

    Parameters
    ----------
    label : int
        0 to 9.
    phrasing : str
        One of `PHRASINGS`, or `HELD_OUT_PHRASING`: new in its order, but not in its words.
    figure : bool
        Whether the digit is written as a figure, "7", not as a word, "seven".

    Raises
    ------
    ValueError
        If the label is none of a digit, or the phrasing unknown.

    Examples
    --------
    >>> digit_caption(7, PHRASINGS[0]), digit_caption(7, PHRASINGS[1], figure=True)
    ('a photo of the digit seven', 'the number 7, drawn by rule')
    """
    check_whole("digit_caption", "label", label, least=0)
    check_choice("digit_caption", "label", int(label), range(10))
    check_choice("digit_caption", "phrasing", phrasing, [*PHRASINGS, HELD_OUT_PHRASING])
    return phrasing.format(int(label) if figure else NAMES[label])


def all_captions():
    """Every caption of every digit that is not held out, in one list.

    Examples
    --------
    >>> len(all_captions())
    140
    """
    return [digit_caption(label, phrasing, figure)
            for label in range(10) for phrasing in PHRASINGS for figure in (False, True)]
