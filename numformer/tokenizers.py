"""From text to ids and back."""

import numpy as np

from numformer.checks import check_ids


class CharacterTokenizer:
    """One id for every character: the vocabulary is the sorted set of characters of a text.

    Parameters
    ----------
    characters : str
        All characters, each once, in the order of their ids.

    Raises
    ------
    ValueError
        If there are none, or one stands there twice.

    Examples
    --------
    >>> tokenizer = CharacterTokenizer.of("hello")
    >>> tokenizer.characters, tokenizer.encode("hole"), tokenizer.decode(np.array([1, 0, 2, 2, 3]))
    ('ehlo', array([1, 3, 2, 0]), 'hello')
    >>> tokenizer.encode("help")
    Traceback (most recent call last):
    ValueError: CharacterTokenizer: the text holds 'p' (U+0070) at position 3, but the 4 known characters are 'ehlo'.
    """

    def __init__(self, characters):
        if not isinstance(characters, str) or not characters or len(set(characters)) < len(characters):
            raise ValueError(f"CharacterTokenizer: characters={characters!r} must be a text that holds each character once.")
        self.characters = characters
        codes = _code_points(characters)
        self._ids = np.argsort(codes)                                 # id of each code point, in the order of the code points
        self._codes = codes[self._ids]

    @classmethod
    def of(cls, text):
        """The tokenizer of a text's characters.

        Raises
        ------
        ValueError
            If the text is empty.
        """
        return cls("".join(sorted(set(text))))

    def __len__(self):
        return len(self.characters)

    def encode(self, text):
        """The ids of a text.

        Parameters
        ----------
        text : str

        Returns
        -------
        ndarray of int64, shape (number of characters,)

        Raises
        ------
        ValueError
            If a character is unknown: it is shown, with its place.
        """
        codes = _code_points(text)
        places = np.searchsorted(self._codes, codes)
        places[places == len(self._codes)] = 0
        unknown = np.flatnonzero(self._codes[places] != codes)
        if unknown.size:
            at = int(unknown[0])
            known = self.characters if len(self) <= 100 else self.characters[:100] + "..."
            raise ValueError(f"CharacterTokenizer: the text holds {text[at]!r} (U+{ord(text[at]):04X}) at position {at}, "
                             f"but the {len(self)} known characters are {known!r}.")
        return self._ids[places]

    def decode(self, ids):
        """The text of an array of ids.

        Raises
        ------
        ValueError, TypeError
            If an id is out of range, or no integer.
        """
        ids = np.asarray(ids)
        if ids.size:
            check_ids("CharacterTokenizer", "ids", ids, len(self))
        return "".join(self.characters[i] for i in ids)

    def to_json(self):
        """What `tokenizer_from_json` reads."""
        return {"kind": "characters", "characters": self.characters}


def tokenizer_from_json(facts):
    """The tokenizer that `to_json` described.

    Raises
    ------
    ValueError
        If its kind is unknown.
    """
    if not isinstance(facts, dict) or facts.get("kind") != "characters":
        raise ValueError(f"tokenizer_from_json: {facts!r} is no tokenizer of this version; it reads kind 'characters'.")
    return CharacterTokenizer(facts["characters"])


def _code_points(text):
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
