r"""Search for a regular expression in a time that grows with the text, whatever its parts are.

`re` tries one way after another, and forgets which have failed: ``(\p{L}+)*\d`` takes twice as long
for each letter more, and ``\p{L}*\p{L}*\d`` four times as long for twice as many. A regular
expression of a file may be like that, so one that could take long in a text is not given to `re`:
`LinearSearch` tries the same ways in the same order, but none of them twice.
"""

import re
from array import array
from math import inf

from numformer.data.tokenizers.regex_parts import Characters, Group, Repeat

BUDGET, BUDGET_OF_EACH = 2**26, 2**8                  # characters that `re` may read for a text
MOST_WAYS = 1000                                      # in which it may read each of them
MOST_MEMORY = 2**28                                   # bytes of what `LinearSearch` remembers
_FAILED = -1


class Search:
    r"""All matches of a regular expression in a text.

    Parameters
    ----------
    whole : Group
        What `numformer.data.tokenizers.regexes.parsed` returns.

    Examples
    --------
    >>> from numformer.data.tokenizers.regexes import parsed
    >>> search = Search(parsed(r"(\p{L}+)*\d"))
    >>> search.split("a" * 40), search.split("to be 2 b9")
    (['aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'], ['to be ', '2', ' ', 'b9', ''])
    """

    def __init__(self, whole):
        self._quick, self._linear = re.compile(f"({whole.written()[3:-1]})"), LinearSearch(whole)
        self._costs = [_costs(sequence, False) for sequence in whole.sequences]

    def spans(self, text):
        """(begin, end) of all matches, from left to right: an iterator."""
        if self._is_quick(text):
            return (match.span() for match in self._quick.finditer(text))
        return iter(self._linear.spans(text))

    def count(self, text):
        """How many matches there are, and how many characters they have together."""
        n_matches = n_taken = 0
        for begin, end in self.spans(text):
            n_matches, n_taken = n_matches + 1, n_taken + end - begin
        return n_matches, n_taken

    def sub(self, content, text):
        """The text with a content in place of each match."""
        if self._is_quick(text):
            return self._quick.sub(lambda _: content, text)
        parts = self.split(text)
        parts[1::2] = [content] * (len(parts) // 2)
        return "".join(parts)

    def split(self, text):
        """The text between matches and the matches, in turns, as of `re.split`."""
        if self._is_quick(text):
            return self._quick.split(text)
        parts, last = [], 0
        for begin, end in self._linear.spans(text):
            parts += text[last:begin], text[begin:end]
            last = end
        return [*parts, text[last:]]

    def _is_quick(self, text):
        """Whether `re` reads at most `BUDGET` characters, or `BUDGET_OF_EACH` for each of the text.

        A repeat after which a sequence can fail is entered once from each character of a run of its
        class, and is left after each: r repeats and a run of n characters cost n^(r + 1) at most.
        """
        budget = max(BUDGET, BUDGET_OF_EACH * len(text))
        for repeats, ways in self._costs:
            power = len(repeats) + 1
            if ways > MOST_WAYS or repeats and len(text) ** power > budget and budget < sum(
                    len(run) ** power for repeat in repeats for run in repeat.findall(text)):
                return False
        return True


def literal(text):
    """The `Search` for a text as it is."""
    return Search(Group("(?:", [[Characters(re.escape(text), False)]]))


def _costs(sequence, can_fail):
    """How often `re` may try a sequence, after which something can fail or not.

    Returns
    -------
    repeats : list of re.Pattern
        The classes of repeats of a number that is tried, one after another.
    ways : float
        In how many ways the rest may match; infinite if a group is repeated.
    """
    repeats, ways = [], 1.0
    for part in sequence[::-1]:
        counted = isinstance(part, Repeat)
        inner = part.part if counted else part
        if isinstance(inner, Group):
            found = [_costs(each, can_fail or inner.looks) for each in inner.sequences]
            repeats += [repeat for some, _ in found for repeat in some]
            if counted and part.most != 1:
                ways = inf
            elif can_fail or inner.looks:
                ways *= sum(number for _, number in found) + counted
            else:
                ways *= max(number for _, number in found)
        elif counted and can_fail and part.most == 1:
            ways *= 2
        elif counted and can_fail and part.most != part.least:
            repeats.append(re.compile(f"{inner.written()}+", re.IGNORECASE * inner.fold))
        can_fail = can_fail or not part.may_be_empty or not counted and not inner.repeatable
    return repeats, ways


class LinearSearch:
    """The matches that `re` finds, in a time of at most (size of the regex) x (size of the text).

    The regex is a program: characters to match, and forks, of which the first way is tried before
    the second. Where a fork at a character of the text leads is remembered, as what follows does
    not depend on how it was reached. Looking around and what never gives back are programs of
    their own.

    Parameters
    ----------
    whole : Group

    References
    ----------
    Davis, Servant, Lee (2021), "Using Selective Memoization to Defeat Regular Expression Denial of
    Service".
    """

    def __init__(self, whole):
        self._whole = whole
        self._program = None

    def spans(self, text):
        """(begin, end) of all matches, from left to right.

        Raises
        ------
        ValueError
            If that takes more memory than `MOST_MEMORY`.
        """
        if self._program is None:
            self._program = _Program(self._whole)
        memory = _Memory(len(text))
        found, begin = [], 0
        while begin < len(text):
            end = self._program.match(text, begin, memory)
            if end is not None:
                found.append((begin, end))
            begin = begin + 1 if end is None else end
        return found


class _Members(dict):
    """Whether characters are in a class."""

    def __init__(self, part):
        self._matches = re.compile(part.written(), re.IGNORECASE * part.fold).match

    def __missing__(self, character):
        self[character] = found = self._matches(character) is not None
        return found


class _Memory(dict):
    """An array for each fork: for each character of a text the end of the match from there."""

    def __init__(self, length):
        self.length, self.size = length, 0

    def __missing__(self, fork):
        self.size += 4 * (self.length + 1)
        if self.size > MOST_MEMORY:
            raise ValueError(f"a regex of the tokenizer needs too much memory for a text of "
                             f"{self.length} characters; give a shorter text.")
        self[fork] = ends = array("i", bytes(4 * (self.length + 1)))
        return ends


class _Program:
    """Instructions (kind, x, y): "match" a character of the class x; a "fork" to x, then to y; go
    "to" x; "look" whether the program x matches, y characters before, or not; "keep" the match of
    the program x; and the "end"."""

    def __init__(self, part):
        self.code = []
        self._add(part)
        self.code.append(("end", None, None))

    def _add(self, part):
        code = self.code
        if isinstance(part, Characters):
            code.append(("match", _Members(part), None))
        elif isinstance(part, Group) and part.looks:
            code.append(("look", _Program(Group("(?:", part.sequences)),
                         (part.width_behind, part.opened.endswith("!"))))
        elif isinstance(part, Group):
            ends = []
            for sequence in part.sequences[:-1]:
                fork = self._fork()
                self._add_all(sequence)
                ends.append(self._fork())
                code[fork] = "fork", fork + 1, len(code)
            self._add_all(part.sequences[-1])
            for end in ends:
                code[end] = "to", len(code), None
        elif part.mode == "+":
            code.append(("keep", _Program(part.giving_back()), None))
        else:
            self._add_repeat(part)

    def _add_all(self, parts):
        for part in parts:
            self._add(part)

    def _fork(self):
        """An instruction that is to be filled in."""
        self.code.append(None)
        return len(self.code) - 1

    def _add_repeat(self, part):
        code, forks = self.code, []
        self._add_all([part.part] * part.least)
        if part.most is None:
            forks.append(self._fork())
            self._add(part.part)
            code.append(("to", forks[0], None))
        else:
            for _ in range(part.most - part.least):
                forks.append(self._fork())
                self._add(part.part)
        for fork in forks:
            ways = fork + 1, len(code)
            code[fork] = "fork", *(ways[::-1] if part.mode == "?" else ways)

    def match(self, text, begin, memory):
        """The end of the match that begins at a character; None if there is none."""
        code, length = self.code, len(text)
        waiting, passed = [(0, begin, 0)], []         # ways to try; forks on the way to here
        while waiting:
            at, i, n_passed = waiting.pop()
            del passed[n_passed:]                     # all ways from these have failed
            while True:
                kind, x, y = code[at]
                if kind == "match":
                    if i == length or not x[text[i]]:
                        break
                    at, i = at + 1, i + 1
                elif kind == "fork":
                    ends = memory[self, at]
                    if ends[i]:
                        if ends[i] == _FAILED:
                            break
                        return self._found(passed, ends[i] - 1, memory)
                    ends[i] = _FAILED                 # unless it is found later
                    passed.append((at, i))
                    waiting.append((y, i, len(passed)))
                    at = x
                elif kind == "to":
                    at = x
                elif kind == "look":
                    width, is_not = y
                    found = i >= width and x.match(text, i - width, memory) is not None
                    if found == is_not:
                        break
                    at += 1
                elif kind == "keep":
                    i = x.match(text, i, memory)
                    if i is None:
                        break
                    at += 1
                else:
                    return self._found(passed, i, memory)
        return None

    def _found(self, passed, end, memory):
        for fork, i in passed:
            memory[self, fork][i] = end + 1
        return end
