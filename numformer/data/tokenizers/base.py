"""The base of all tokenizers: special tokens, and checks of texts and ids."""

import re
from reprlib import repr as brief                    # of a long value only the beginning

import numpy as np

from numformer.checks import check_choice, check_ids

UNKNOWN = "[UNK]"


class Tokenizer:
    """Special tokens have the first ids, in the order given, or the last; the others are texts'.

    Special tokens mark what is no text: the end, padding, a mask. A task names those that it needs,
    such as ``("[PAD]", "[CLS]", "[SEP]", "[MASK]")``. `encode` never returns one, even if a text
    spells its name: put its `special_id` among the ids, or use `encode_with`. `decode` writes its
    name. (In a `PublishedTokenizer` they are anywhere, and `encode` finds their names.)

    Parameters
    ----------
    special : sequence of str
        Names of the special tokens.
    n_tokens : int
        How many ordinary tokens follow them.
    special_last : bool
        Whether the special tokens follow the ordinary ones instead.

    Raises
    ------
    ValueError
        If a name is empty, no str, or given twice.
    """

    def __init__(self, special, n_tokens, special_last=False):
        is_list = isinstance(special, (tuple, list))
        if (not is_list or any(not isinstance(name, str) or not name for name in special)
                or len(set(special)) < len(special)):
            raise ValueError(f"{type(self).__name__}: special={brief(special)} must be a tuple of "
                             "names, each once, such as ('[PAD]', '[UNK]').")
        self.special = tuple(special)
        self._size = len(special) + n_tokens
        first = n_tokens if special_last else 0
        self._special_ids = range(first, first + len(special))

    def __len__(self):
        return self._size

    def __repr__(self):
        special = "".join(f", {name}" for name in self.special)
        return f"{type(self).__name__}({len(self)} ids{special})"

    def encode_with(self, names, text):
        """The ids of a text in which the names of these special tokens mean the tokens.

        Examples
        --------
        >>> from numformer.data import CharacterTokenizer
        >>> tokenizer = CharacterTokenizer("ab", special=("[MASK]",))
        >>> tokenizer.encode_with(["[MASK]"], "a[MASK]b")
        array([1, 0, 2])
        """
        name = re.compile(f"({'|'.join(map(re.escape, names))})")
        return np.concatenate([[self.special_id(part)] if part in names else self.encode(part)
                               for part in name.split(text)])

    def prompt_ids(self, text):
        """The ids of a text that a model is to continue: `encode`, and of a published tokenizer
        with the special tokens of its template, such as BOS."""
        return self.encode(text)

    @property
    def first_ids(self):
        """The ids that a template has before every text; of ours, none."""
        return ()

    def special_id(self, name):
        """The id of a special token.

        Raises
        ------
        ValueError
            If there is no such token.
        """
        check_choice(type(self).__name__, "name", name, self.special)
        return self._special_ids[self.special.index(name)]

    def n_characters(self, ids):
        """How many characters of a text these ids are; None if `decode` may not restore texts.

        Special tokens are no text.
        """
        return None

    def decode_stream(self, ids, after=()):
        """Decode ids that come one at a time, such as generated ones.

        Parameters
        ----------
        ids : iterable of int
        after : sequence of int
            The ids before them.

        Yields
        ------
        str
            Joined, what `decode` adds for them.
        """
        before = list(after[-1:])
        for token in ids:
            yield self.decode([*before, token])[len(self.decode(before)):]
            before = [token]

    def _checked_ids(self, ids):
        """Ids as a list."""
        ids = np.asarray(ids)
        if ids.ndim != 1:
            raise ValueError(f"{type(self).__name__}: ids must have shape (T,), "
                             f"but have {ids.shape}; decode one sequence at a time.")
        if ids.size:
            check_ids(type(self).__name__, "ids", ids, len(self))
        return ids.tolist()


def check_text(owner, text, kinds=(str,)):
    """Check that `text` is of one of these types.

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
        names = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"{owner}: text must be {names}, but is {type(text).__name__}.")
