"""Words as the search of the decks compares them: whole, by their stems, alone or run together."""

import re
from functools import cache

PART = re.compile(r"[A-Z]+s?(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+|\d+")
_ENDINGS = re.compile(
    r"(?<=\w{3})(izations?|izing|ize[drs]?|izers|ations?|ating|ate[ds]?|ions?|ings?|(?<!emb)ed"
    r"|als?|ly|ances?|ants?|ives?|e)$|(?<=\w{5})(ences?|ents?)$"
    r"|(?<=[^su])s$|(?<=^\w\wu)s$|(?<=s)es$")
_SMALL = {"a", "an", "the", "and", "or", "of", "in", "for"}           # which a phrase may leave out
_MOST = 5                                             # parts that a word may be run together from


@cache
def stem(word):
    """A word without its endings: masks, masked and masking are one.

    Examples
    --------
    >>> stem("permutation"), stem("permuted"), stem("permutes")
    ('permut', 'permut', 'permut')
    >>> stem("Normalization"), stem("norms"), stem("queries"), stem("embedding")
    ('norm', 'norm', 'query', 'embed')
    """
    word, before = re.sub("(?<=[a-z]{3})ies$", "y", word.lower()), ""
    while word != before and len(word) > 3:
        before, word = word, _ENDINGS.sub("", word)
    return re.sub(r"(?<=\w{2})([bdgmnprt])\1$", r"\1", word)


@cache
def _singular(word):
    return re.sub("(?<=[^su])s$", "", word)


def parts(text):
    """The parts of each word of a text, lower case: "LayerNorm of W_O" has two, one and two.

    Examples
    --------
    >>> parts("LayerNorm of W_O")
    [['layer', 'norm'], ['of'], ['w', 'o']]
    """
    return [found for word in text.split() if (found := [part.lower() for part in
                                                         PART.findall(word)])]


@cache
def _asked(word):
    """The parts of a word that is looked up, what they are run together, and its stem."""
    own = [part.lower() for part in PART.findall(word)]
    return own, "".join(own), "".join([*own[:-1], *map(stem, own[-1:])])


class Text:
    """A text in which words are looked up.

    Parameters
    ----------
    text : str
    is_prose : bool
        Whether words with a space between them may be meant as one: "layernorm" in "Layer Norm".

    Examples
    --------
    >>> text = Text("Layer Normalization, and the matrix W_O")
    >>> [text.has(word) for word in ("layernorm", "W_O", "wo", "ma", "layer-norm")]
    [True, True, True, False, True]
    """

    def __init__(self, text, is_prose=True):
        chunks = parts(text)
        self.words = [part for chunk in chunks for part in chunk]
        self.stems = {*self.words, *map(stem, self.words)}
        self.joined = {joined for chunk in chunks for joined in _joined(chunk)}
        if is_prose:
            self.joined |= {joined for joined in _joined(self.words) if len(joined) >= 5}
        told = [word for word in self.words if word not in _SMALL]
        self.forms = [stem(word) for word in told]
        self.exactly = [_singular(word) for word in told]

    def has(self, word):
        """Whether it has a word: alone, or run together from several, in another form or not.

        One of several parts, such as W_O, is also found as one word if it is no short one.
        """
        own, whole, its_stem = _asked(word)
        alone = len(own) == 1 or len(whole) >= 5
        return any(form in self.joined or alone and form in self.stems
                   for form in (whole, its_stem))

    def begins(self, word):
        """Whether it has a longer word that begins with this one, of four letters or more."""
        whole = _asked(word)[1]
        return len(whole) >= 4 and any(each.startswith(whole) for each in self.words)

    def is_phrase(self, words, exactly=False):
        """Whether it is these words and no others, as they are or in other forms."""
        wanted, told = self._compared(words, exactly)
        return "".join(wanted) == "".join(told)

    def phrase_at(self, words, exactly=False):
        """Where it has the words one after the other, as they are or in other forms; or None."""
        wanted, told = self._compared(words, exactly)
        together = "".join(wanted)
        for n in range(len(told)):
            if any("".join(told[n:n + k]) == together
                   for k in range(1, max(_MOST, len(wanted)) + 1)):
                return n
        return None

    def _compared(self, words, exactly):
        form = _singular if exactly else stem
        return [form(part) for word in words for part in _asked(word)[0] if part not in _SMALL], (
            self.exactly if exactly else self.forms)


def _joined(words):
    """What two or more words that follow each other are, run together, with its stem."""
    for n in range(len(words)):
        together = words[n]
        for word in words[n + 1:n + _MOST]:
            yield together + stem(word)
            together += word
            yield together
