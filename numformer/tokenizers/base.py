"""What every tokenizer has: special tokens, and a look at what comes in."""

import re

import numpy as np

from numformer.checks import check_choice, check_ids

UNKNOWN = "[UNK]"


class Tokenizer:
    """Special tokens have the first ids, in the order of their names; the pieces of texts have the ids after them.

    Special tokens stand for what is no text: the end, padding, a place to fill in. A task names those that it needs, such as
    ``("[PAD]", "[CLS]", "[SEP]", "[MASK]")``. A text that spells such a name is still text: `encode` never makes a special token of
    it, and whoever wants one puts its `special_id` among the ids. `decode` writes its name.

    Parameters
    ----------
    special : sequence of str
        Names of the special tokens.
    n_pieces : int
        How many ids follow them.

    Raises
    ------
    ValueError
        If a name is empty or no text, or stands there twice.
    """

    def __init__(self, special, n_pieces):
        owner, names = type(self).__name__, special if isinstance(special, (tuple, list)) else None
        if names is None or any(not isinstance(name, str) or not name for name in names) or len(set(names)) < len(names):
            raise ValueError(f"{owner}: special={special!r} must be a tuple of names, each once, such as ('[PAD]', '[UNK]').")
        self.special = tuple(names)
        self._size = len(names) + n_pieces

    def __len__(self):
        return self._size

    def __repr__(self):
        return f"{type(self).__name__}({len(self)} ids{''.join(f', {name}' for name in self.special)})"

    def encode_with(self, names, text):
        """The ids of a text in which these special tokens' names stand for the tokens: an array of int.

        Examples
        --------
        >>> from numformer.tokenizers import CharacterTokenizer
        >>> CharacterTokenizer("ab", special=("[MASK]",)).encode_with(["[MASK]"], "a[MASK]b")
        array([1, 0, 2])
        """
        name = re.compile(f"({'|'.join(map(re.escape, names))})")
        return np.concatenate([[self.special_id(part)] if part in names else self.encode(part) for part in name.split(text)])

    def special_id(self, name):
        """The id of a special token.

        Raises
        ------
        ValueError
            If there is no such token.
        """
        check_choice(type(self).__name__, "name", name, self.special)
        return self.special.index(name)

    def _checked_ids(self, ids):
        """Ids as a list."""
        ids = np.asarray(ids)
        if ids.ndim != 1:
            raise ValueError(f"{type(self).__name__}: ids must have shape (T,), but have {ids.shape}; decode one sequence at a time.")
        if ids.size:
            check_ids(type(self).__name__, "ids", ids, len(self))
        return ids.tolist()


def check_text(owner, text, kinds=(str,)):
    """Check that `text` is a text of one of the kinds.

    Raises
    ------
    TypeError
        If it is not.

    Examples
    --------
    >>> check_text("demo", 3)
    Traceback (most recent call last):
    TypeError: demo: text must be str, but is int.
    """
    if not isinstance(text, kinds):
        raise TypeError(f"{owner}: text must be {' or '.join(kind.__name__ for kind in kinds)}, but is {type(text).__name__}.")
