"""Added tokens: names in a text that are tokens as they are, such as <|endoftext|>."""

import re

from numformer.data.tokenizers.published.fields import read_fields
from numformer.data.tokenizers.regexes import SPACES

MOST_CHARACTERS = 1000                                # of an added token
_BEGIN = 4                                            # characters by which names are looked up
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
            if len(name) > MOST_CHARACTERS:
                raise ValueError(f"tokenizer.json: the added token {name[:40]!r} has {len(name)} "
                                 f"characters; at most {MOST_CHARACTERS} are supported.")
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
        self._searches = {kind: _Longest(found) for kind, found in names.items()}

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
        end = 0
        for start, stop, token in self._searches[is_normalized].found(text):
            left, right = self._strip[token]
            while left and start > end and _IS_SPACE(text[start - 1]):
                start -= 1
            stop = max(stop, end)                     # what is stripped may be a token, too
            while right and stop < len(text) and _IS_SPACE(text[stop]):
                stop += 1
            if end < start:
                yield None, text[end:start]
            yield token, None
            end = stop
        if end < len(text):
            yield None, text[end:]


class _Longest:
    """Finds names in a text: at each character the longest that begins there, never two at once.

    Parameters
    ----------
    numbers : dict of str to int
    """

    def __init__(self, numbers):
        self._numbers = {name: number for name, number in numbers.items() if name}
        lengths, first = {}, set()
        for name in self._numbers:
            lengths.setdefault(name[:_BEGIN], set()).add(len(name))
            first.add(name[0])
        self._lengths = {begin: sorted(found, reverse=True) for begin, found in lengths.items()}
        self._begins = sorted({len(begin) for begin in lengths}, reverse=True)
        self._first = re.compile(f"[{re.escape(''.join(sorted(first)))}]") if first else None

    def found(self, text):
        """(begin, end, number) of the names in a text."""
        match = self._first and self._first.search(text)
        while match:
            begin = match.start()
            name = self._at(text, begin)
            end = begin + len(name or " ")
            if name:
                yield begin, end, self._numbers[name]
            match = self._first.search(text, end)

    def _at(self, text, begin):
        for size in self._begins:
            for length in self._lengths.get(text[begin:begin + size], ()):
                if text[begin:begin + length] in self._numbers:
                    return text[begin:begin + length]
        return None
