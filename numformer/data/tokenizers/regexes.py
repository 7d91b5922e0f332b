r"""Regular expressions of published tokenizers, which are Oniguruma's, in the syntax of `re`.

Only what means the same in both is translated. Classes of Unicode, such as \p{L}, are derived from
`unicodedata`, so a character that is younger than this Python is no letter and no digit.
"""

import re
import sys
import unicodedata
from functools import lru_cache
from itertools import pairwise
from reprlib import repr as brief

from numformer.data.tokenizers.regex_parts import Characters, Group, Repeat

# White_Space of Unicode; \s of `re` has four separators of ASCII more
SPACES = "\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"

CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs "
              "Co Cn").split()
_PROPERTY = r"\\(?P<not>[pP])\{(?P<category>[A-Z][a-z]?)\}"
_ESCAPE = r"\\(?P<escape>[^A-Za-z0-9\s]|[nrtsSd])"
_ATOM = re.compile(rf"{_PROPERTY}|{_ESCAPE}"
                   r"|(?P<group>\((?:\?(?:[:=!]|i:|<[=!]))?)(?!\?)|(?P<end>\))|(?P<or>\|)"
                   r"|(?P<times>[*+?][+?]?|\{\d{1,4}(?:,\d{0,4})?\})(?![*+?{])|(?P<set>\[)"
                   r"|(?P<literal>[^\\^$.|?*+()\[\]{}])")
_MEMBER = re.compile(rf"{_PROPERTY}|{_ESCAPE}|(?P<set>\[(?![:^\]]))|(?P<end>\])"
                     r"|(?P<literal>[^\\\[\]&]|&(?!&))")
MOST_PARTS = 2000                                     # of a regex whose counts are written out
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t"}
# Without case these are one character, too: ß, ff, fi, fl, st; `re` does not know that
_FOLDED = re.compile("ss|f[fil]|st", re.IGNORECASE)


@lru_cache(maxsize=1)
def _runs():
    """[(first, last, category)] of consecutive characters of one category."""
    runs, first = [], 0
    categories = [*map(unicodedata.category, map(chr, range(sys.maxunicode + 1))), None]
    for code, (one, following) in enumerate(pairwise(categories)):
        if one != following:
            runs.append((first, code, one))
            first = code + 1
    return runs


def _ranges(pairs):
    """(first, last) of code points, in order, for a class of `re`; neighbours become one range."""
    ranges = []
    for first, last in pairs:
        if ranges and ranges[-1][1] == first - 1:
            ranges[-1][1] = last
        else:
            ranges.append([first, last])
    return "".join([f"{re.escape(chr(a))}-{re.escape(chr(b))}" for a, b in ranges])


@lru_cache
def characters_of(*categories):
    r"""The characters of categories, as ranges for a class of `re`.

    Examples
    --------
    >>> characters_of("Zl", "Zp")
    '\u2028-\u2029'
    """
    return _ranges((first, last) for first, last, category in _runs()
                   if category.startswith(categories))


@lru_cache
def white_space():
    """All characters of `SPACES`, one after the other."""
    return "".join(re.findall(f"[{SPACES}]", "".join(map(chr, range(0x3001)))))


@lru_cache
def _no_spaces():
    ends = [-1, *map(ord, white_space()), sys.maxunicode + 1]
    return _ranges((a + 1, b - 1) for a, b in pairwise(ends) if a + 1 < b)


@lru_cache(maxsize=64)
def translated(regex):
    r"""A regular expression of Oniguruma for `re`.

    It may hold characters, ``\n``, ``\r``, ``\t``, ``\s``, ``\S``, ``\d``, general categories such
    as ``\p{L}`` and ``\P{Lu}``, classes of these, also nested, groups, ``(?i:...)`` with ASCII
    inside, looking ahead and back, ``|``, and counts.

    Parameters
    ----------
    regex : str

    Returns
    -------
    str
        Without groups that are numbered.

    Raises
    ------
    ValueError
        If it holds anything else, may match nothing, or repeats what may match nothing.

    Examples
    --------
    >>> re.findall(translated(r"\s?[^\s[.!](]+"), "to be (or!")
    ['to', ' be', 'or']
    >>> translated("a$")
    Traceback (most recent call last):
    ValueError: the regex 'a$' is not supported from '$' on.
    """
    return parsed(regex).written()[3:-1]


@lru_cache(maxsize=64)
def parsed(regex):
    """The parts of a regular expression that `translated` takes: a `Group`."""
    try:
        whole = _parts(regex)
        if whole.may_be_empty or whole.size > MOST_PARTS:
            raise _not_supported(regex, 0)
        re.compile(whole.written())
    except (re.error, OverflowError, RecursionError):
        raise _not_supported(regex, 0) from None
    return whole


def _parts(regex):
    groups, end = [("(?:", [[]], 0)], 0               # the open ones: their sequences, and where
    while end < len(regex):
        atom, start = _ATOM.match(regex, end), end
        kind, sequence = atom and atom.lastgroup, groups[-1][1][-1]
        if kind is None or (kind == "end" and len(groups) == 1) or (
                kind == "times" and not (sequence and sequence[-1].repeatable)):
            raise _not_supported(regex, start)
        end = atom.end()
        if kind == "group":
            groups.append(("(?:" if atom[0] == "(" else atom[0], [[]], start))
        elif kind == "end":
            opened, sequences, start = groups.pop()
            if opened == "(?i:" and (_FOLDED.search(regex[start:end]) or "\\" in regex[start:end]
                                     or not regex[start:end].isascii()):
                raise _not_supported(regex, start)
            groups[-1][1][-1].append(Group(opened, sequences))
        elif kind == "or":
            groups[-1][1].append([])
        elif kind == "times":
            sequence[-1] = Repeat(sequence[-1], atom[0])
            if sequence[-1].most != 1 and sequence[-1].part.may_be_empty:
                raise _not_supported(regex, start)
        else:
            members, end = _set(regex, end) if kind == "set" else (_members(atom), end)
            members = f"[{members}]" if kind != "set" and len(members) > 2 else members
            sequence.append(Characters(members, any(opened == "(?i:" for opened, *_ in groups)))
    if len(groups) > 1:
        raise _not_supported(regex, 0)
    return Group("(?:", groups[0][1])


def _set(regex, start):
    """(a class for `re`, where it ends), of the one whose [ ends at `start`."""
    is_not = regex.startswith("^", start)
    depth, end, members = 1, start + is_not, []
    first = end
    while depth:
        item = _MEMBER.match(regex, end)
        kind = item and item.lastgroup
        is_first = end == first
        if kind is None or kind == "end" and is_first:
            raise _not_supported(regex, end)
        if kind == "set":
            depth += 1
            first = item.end()
        elif kind == "end":
            depth -= 1
        elif item[0] == "-":                          # only between two characters
            left, right = regex[end - 1:end], regex[end + 1:end + 2]
            if is_first or left in "]}" or right in ("", "[", "]", "\\", "-") or (
                    regex[end - 2:end - 1] in ("\\", "-")):
                raise _not_supported(regex, end)
            members.append("-")
        else:
            members.append(_members(item))
        end = item.end()
    return f"[{'^' * is_not}{''.join(members)}]", end


def _members(item):
    """The members of a class that one item stands for."""
    if item["category"]:
        category = item["category"]
        if category not in CATEGORIES and category not in {name[0] for name in CATEGORIES}:
            raise ValueError(f"the regex class {item[0]} is not supported; supported are the "
                             "general categories of Unicode.")
        if item["not"] == "p":
            return characters_of(category)
        return characters_of(*[name for name in CATEGORIES if not name.startswith(category)])
    if item["escape"]:
        known = {"s": SPACES, "d": characters_of("Nd")}
        if item["escape"] in known:
            return known[item["escape"]]
        if item["escape"] == "S":
            return _no_spaces()
        return re.escape(_CONTROLS.get(item["escape"], item["escape"]))
    return re.escape(item[0])


def _not_supported(regex, start):
    return ValueError(f"the regex {brief(regex)} is not supported from {brief(regex[start:])} on.")
