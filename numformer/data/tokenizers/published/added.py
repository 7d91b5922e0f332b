"""Added tokens: names in a text that are tokens as they are, such as <|endoftext|>."""

import re

from numformer.data.tokenizers.published.fields import read_fields
from numformer.data.tokenizers.regexes import SPACES

_IS_SPACE = re.compile(f"[{SPACES}]").match


class AddedTokens:
    """Finds the added tokens of a tokenizer.json in texts.

    Those that are marked as normalized are searched in the normalized text, by their normalized
    names, which also stand for them in decoded texts; the others before, in the text as it came. Of
    the tokens that begin at one character the longest is taken.

    Parameters
    ----------
    facts : list of dict
        The field ``added_tokens``.
    ids : dict
        The ids of the model's tokens, 0 .. n-1. An added token that is not among them has the next
        id that is free, as its own id has to say.
    normalize : function from str to str

    Raises
    ------
    ValueError
        If a field is unknown, or an id is not the one that the token gets.
    """

    def __init__(self, facts, ids, normalize):
        self.ids, self.special, self._normalize = {}, [], normalize
        self.decoded, self._strip, names = {}, {}, {True: {}, False: {}}
        free = len(ids)
        for token in facts:
            number, name, _, left, right, is_normalized, special = read_fields(
                "added token", token, id=[int], content=[str], single_word=[False],
                lstrip=[False, bool], rstrip=[False, bool], normalized=[bool],
                special=[bool])
            if not name or name in self.ids:
                raise ValueError(f"tokenizer.json: the added token {name[:40]!r} is empty or given "
                                 "twice.")
            if number != ids.get(name, free):
                raise ValueError(f"tokenizer.json: the added token {name[:40]!r} has the id "
                                 f"{number}, but gets {ids.get(name, free)}; ids are 0, 1, ... "
                                 "without gaps.")
            self.ids[name] = number
            free += name not in ids
            self.special += [name] * special
            self._strip[number] = left, right
            searched = normalize(name) if is_normalized else name
            self.decoded[number] = searched
            if names[is_normalized].setdefault(searched, number) != number:
                raise ValueError(f"tokenizer.json: the added token {name[:40]!r} is another one "
                                 "when it is normalized.")
        self._names, self._searches = names, {
            kind: _any_of(filter(None, found)) if any(found) else None
            for kind, found in names.items()}

    def sections(self, text):
        """Cut a text: (id, None) for an added token, (None, normalized text) between them.

        Examples
        --------
        >>> facts = dict(id=2, content="<x>", normalized=False, special=True)
        >>> list(AddedTokens([facts], {"a": 0, "b": 1}, str.lower).sections("A<x>B<X>"))
        [(None, 'a'), (2, None), (None, 'b<x>')]
        """
        for token, section in self._cut(text, False):
            if section is None:
                yield token, None
            else:
                yield from self._cut(self._normalize(section), True)

    def _cut(self, text, is_normalized):
        search, end = self._searches[is_normalized], 0
        for match in search.finditer(text) if search else ():
            token = self._names[is_normalized][match[0]]
            left, right = self._strip[token]
            start, stop = match.span()
            while left and start > end and _IS_SPACE(text[start - 1]):
                start -= 1
            while right and stop < len(text) and _IS_SPACE(text[stop]):
                stop += 1
            if end < start:
                yield None, text[end:start]
            yield token, None
            end = stop
        if end < len(text):
            yield None, text[end:]


def _any_of(names):
    """A pattern of all names, the longest first."""
    return re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))
