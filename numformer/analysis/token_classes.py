"""Classes of tokens by their text: vowels, digits, words and others."""

import unicodedata

CLASSES = ("consonants", "vowels", "digits", "punctuation", "letters", "words",
           "parts of words")


def class_of(token):
    """The class of a token, one of `CLASSES`.

    Examples
    --------
    >>> [class_of(token) for token in ("a", "x", "7", "\\n", " the", "ing")]
    ['vowels', 'consonants', 'digits', 'punctuation', 'words', 'parts of words']
    """
    if len(token.strip()) > 1:
        return "words" if token[:1].isspace() else "parts of words"
    letter = unicodedata.normalize("NFD", token.strip().lower())[:1]
    if letter.isdigit():
        return "digits"
    if not letter.isalpha():
        return "punctuation"
    if "LATIN" not in unicodedata.name(letter, ""):
        return "letters"
    return "vowels" if letter in "aeiou" else "consonants"
