"""Characters as tokens."""

from reprlib import repr as brief

import numpy as np

from numformer.data.tokenizers.base import Tokenizer, check_text


class CharacterTokenizer(Tokenizer):
    """One id for every character: the vocabulary is the sorted set of characters of a text.

    Parameters
    ----------
    characters : str
        All characters, each once, in the order of their ids.
    special : tuple of str
        Names of special tokens: their ids come before the characters'.

    Raises
    ------
    ValueError
        If there are no characters, or one or a special token is given twice.

    Examples
    --------
    >>> tokenizer = CharacterTokenizer.of("hello")
    >>> tokenizer.characters, tokenizer.encode("hole"), tokenizer.decode(np.array([1, 0, 2, 2, 3]))
    ('ehlo', array([1, 3, 2, 0]), 'hello')
    >>> tokenizer.encode("help")                                       # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: CharacterTokenizer: the text holds 'p' (U+0070) at position 3, ...
    """

    def __init__(self, characters, special=()):
        is_text = isinstance(characters, str) and characters
        if not is_text or len(set(characters)) < len(characters):
            raise ValueError(f"CharacterTokenizer: characters={brief(characters)} must be a str "
                             "that holds each character once.")
        super().__init__(special, len(characters))
        self.characters = characters
        codes = _code_points(characters)
        order = np.argsort(codes)
        self._codes = codes[order]                                    # code points, sorted
        self._ids = order + len(self.special)                         # the id of each

    @classmethod
    def of(cls, text, special=()):
        """The tokenizer of a text's characters.

        Raises
        ------
        ValueError
            If the text is empty.
        """
        return cls("".join(sorted(set(text))), special)

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
        ValueError, TypeError
            If a character is unknown (the error shows it and its position), or the text is no str.
        """
        check_text("CharacterTokenizer", text)
        codes = _code_points(text)
        indices = np.searchsorted(self._codes, codes)
        indices[indices == len(self._codes)] = 0
        unknown = np.flatnonzero(self._codes[indices] != codes)
        if unknown.size:
            at = int(unknown[0])
            n = len(self.characters)
            known = self.characters if n <= 100 else self.characters[:100] + "..."
            raise ValueError(f"CharacterTokenizer: the text holds {text[at]!r} "
                             f"(U+{ord(text[at]):04X}) at position {at}, "
                             f"but the {n} known characters are {known!r}.")
        return self._ids[indices]

    def decode(self, ids):
        """The text of an array of ids.

        Raises
        ------
        ValueError, TypeError
            If an id is out of range, or no integer.
        """
        tokens = [*self.special, *self.characters]
        return "".join([tokens[i] for i in self._checked_ids(ids)])

    def n_characters(self, ids):
        """How many of the ids are characters, and no special tokens."""
        return int(np.count_nonzero(np.array(self._checked_ids(ids)) >= len(self.special)))

    def to_json(self):
        """A dict for `tokenizer_from_json`."""
        return {"kind": "characters", "special": list(self.special), "characters": self.characters}


def _code_points(text):
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
