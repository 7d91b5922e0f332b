"""Normal forms of Unicode, also of a text with very many combining marks on one letter.

`unicodedata.normalize` puts the marks of a letter in order by insertion, which takes a time that
grows with the square of their number, and cannot be interrupted. Long runs of marks are sorted
before.
"""

import re
import unicodedata

_LONG = re.compile("m{32,}")


class CharacterTable(dict):
    """What `str.translate` puts for each character: computed once, when it first occurs."""

    def __init__(self, rule):
        self.rule = rule

    def __missing__(self, code):
        self[code] = changed = self.rule(chr(code))
        return changed


# "m" for a character that is, or becomes, combining marks alone; by the form that decomposes
_KINDS = {form: CharacterTable(
    lambda c, form=form: "m" if unicodedata.combining(unicodedata.normalize(form, c)[0]) else ".")
    for form in ("NFD", "NFKD")}


def normalized(form, text):
    r"""A text in a normal form of Unicode: that of `unicodedata.normalize`, in linear time.

    Marks are in order if their canonical combining classes rise; those of one class keep their
    order. That is a stable sort.

    Parameters
    ----------
    form : "NFC", "NFD", "NFKC" or "NFKD"
    text : str

    Returns
    -------
    str

    References
    ----------
    Unicode Standard Annex 15, "Unicode Normalization Forms".

    Examples
    --------
    >>> normalized("NFC", "e\u0301\u0323") == "\u1eb9\u0301"
    True
    """
    if text.isascii():
        return text
    decomposed = form.replace("C", "D")
    parts, end = [], 0
    for run in _LONG.finditer(text.translate(_KINDS[decomposed])):
        marks = map(unicodedata.normalize, [decomposed] * len(run[0]), text[slice(*run.span())])
        parts += [text[end:run.start()], *sorted("".join(marks), key=unicodedata.combining)]
        end = run.end()
    return unicodedata.normalize(form, "".join([*parts, text[end:]]))
