"""A text in lines of a monospaced font: where they break, and where each letter is."""

from itertools import accumulate

from numformer.plots.text.grid import MONOSPACE, cells_of, columns_of, in_order
from numformer.plots.text.letters import letters


def wrapped(text, columns, kept=0):
    """Lines of at most `columns` letters, broken at white space, but not in the first `kept`.

    Examples
    --------
    >>> wrapped("the dog sleeps\\non abcdefgh", 6)
    ['the', 'dog', 'sleeps', 'on', 'abcdef', 'gh']
    >>> wrapped("a dog", 4, kept=3)
    ['a do', 'g']
    """
    lines = []
    for line in text.split("\n"):
        line = visible_letters(line)
        size = {letter: columns_of(letter) for letter in set(line)}
        while sum(size[letter] for letter in line) > columns:
            fits = sum(used <= columns for used in accumulate(size[letter] for letter in line))
            first = 0 if lines else kept                              # where a break is allowed
            cut = next((k for k in range(min(fits, len(line) - 1), first - 1, -1)
                        if line[k] == " "), -1)
            cut = cut if "".join(line[:max(cut, 0)]).strip() else max(fits, 1)
            lines.append("".join(line[:cut]).rstrip())
            while cut < len(line) and line[cut].isspace():
                cut += 1
            line = line[cut:]
        lines.append("".join(line))
    return lines


def visible_letters(text):
    """The letters of a text, a dot for each that is not printable."""
    return [letter if letter[0].isprintable() else "\u00b7" for letter in letters(text)]


def parts_of_line(line, first, columns, right_to_left):
    """(column, text, font, whether it is given) of the parts of a line, which has `columns`.

    Those are what is given and what follows, or single letters where one is wide or runs from right
    to left.
    """
    cells = cells_of(line)
    order = in_order(cells, right_to_left)
    if all(place == (k, k) and cells[k].font == MONOSPACE for k, place in enumerate(order)):
        given = "".join(cell.shown for cell in cells[:first])
        rest = "".join(cell.shown for cell in cells[first:])
        return [(0, given, MONOSPACE, True), (first, rest, MONOSPACE, False)]
    indent = columns - sum(cell.columns for cell in cells) if right_to_left else 0
    return [(indent + column, cells[k].shown, cells[k].font, k < first) for column, k in order]
