"""BERT's text: what its tokenizer changes before it splits a text into words."""

import re
import unicodedata

from numformer.data.tokenizers.normal_forms import CharacterTable, normalized
from numformer.data.tokenizers.regexes import SPACES

# What BERT's code calls Chinese characters: ideographs, which have no spaces around them
_IDEOGRAPHS = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df"
                         "\U0002a700-\U0002b81f\U0002b920-\U0002ceaf\U0002f800-\U0002fa1f]")
_IS_SPACE = re.compile(f"[{SPACES}]").match


def _clean(character):
    if character in "\t\n\r":
        return " "
    if character in "\0\ufffd" or unicodedata.category(character) in ("Cc", "Cf", "Co", "Cs"):
        return ""
    return " " if _IS_SPACE(character) else character


_CLEAN = CharacterTable(_clean)
_NO_ACCENTS = CharacterTable(lambda c: "" if unicodedata.category(c) == "Mn" else c)


def lower(text):
    """Lower case, character by character: a capital sigma is σ also at the end of a word.

    Examples
    --------
    >>> lower("ΌΣΟΣ"), "ΌΣΟΣ".lower()
    ('όσοσ', 'όσος')
    """
    return text.replace("Σ", "σ").lower()


def bert_normalize(text, clean=True, ideographs=True, accents=None, lowercase=True):
    r"""BERT's text: clean, with spaces around ideographs, without accents, in lower case.

    Clean text has no control, format or private characters, and all white space is spaces. An
    accent is a nonspacing mark of the decomposed text (NFD).

    Parameters
    ----------
    text : str
    clean, ideographs, lowercase : bool
        Which of these steps to take.
    accents : bool, optional
        Whether to strip accents; by default if the text is put in lower case.

    References
    ----------
    Devlin et al. (2019), "BERT", and the code published with it.

    Examples
    --------
    >>> bert_normalize("Caf\u00e9\t\u6f22\u5b57\u200b!")
    'cafe  漢  字 !'
    """
    if clean:
        text = text.translate(_CLEAN)
    if ideographs:
        text = _IDEOGRAPHS.sub(r" \g<0> ", text)
    if lowercase if accents is None else accents:
        text = normalized("NFD", text).translate(_NO_ACCENTS)
    return lower(text) if lowercase else text
