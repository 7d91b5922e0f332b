"""How long the steps of a tokenizer.json may make a text.

A step may lengthen a text: compatibility forms of Unicode make 18 characters of one, at most. Sixty
steps that double it would take more memory than there is.
"""

GROWTH, SPARE = 64, 4096                              # times as long as the text, and more


def most_characters(length):
    """How many characters the steps may make of a text of this length."""
    return GROWTH * length + SPARE


def check_growth(where, length, most):
    """Check how many characters a step makes, before it makes them.

    Examples
    --------
    >>> check_growth("normalizer Replace", 10**9, most_characters(100))
    Traceback (most recent call last):
    ValueError: tokenizer.json: normalizer Replace makes 1000000000 characters, more than the 10496\
 that a text of this length may become.
    """
    if length > most:
        raise ValueError(f"tokenizer.json: {where} makes {length} characters, more than the {most} "
                         "that a text of this length may become.")


def replaced(where, search, content, text, most):
    """A text with a content in place of all matches, of limited length.

    Parameters
    ----------
    where : str
        What replaces, for errors.
    search : Search
    content, text : str
    most : int

    Raises
    ------
    ValueError
        If it gets longer.
    """
    if len(content) > 1:                              # no match is empty
        n_matches, n_taken = search.count(text)
        check_growth(where, len(text) - n_taken + n_matches * len(content), most)
    return search.sub(content, text)
