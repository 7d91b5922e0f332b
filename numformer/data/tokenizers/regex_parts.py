"""The parts of a regular expression: characters, repeats, and groups of sequences of parts."""

from functools import cached_property


class Characters:
    """One character of a class.

    Parameters
    ----------
    members : str
        The character or the class, as `re` writes it.
    fold : bool
        Whether case does not matter.
    """

    size, width, may_be_empty, repeatable = 1, 1, False, True

    def __init__(self, members, fold):
        self.members, self.fold = members, fold

    def written(self):
        """The part for `re`."""
        return self.members


class Repeat:
    """A part several times.

    Parameters
    ----------
    part : Characters or Group
    times : str
        Such as ``*``, ``+?``, ``?+`` or ``{1,3}``.

    Attributes
    ----------
    least, most : int
        How often; `most` is None without a bound.
    mode : str
        "" for as often as possible first, "?" for as rarely as possible first, "+" for as often as
        possible, whatever follows.
    """

    repeatable = True

    def __init__(self, part, times):
        self.part, self._times = part, times
        counts = times[1:-1].split(",") if times[0] == "{" else []
        self.mode = "" if counts else times[1:]
        if counts:
            self.least = int(counts[0])
            self.most = int(counts[-1]) if counts[-1] else None
        else:
            self.least, self.most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[times[0]]

    @cached_property
    def size(self):
        """How many characters the part has when its counts are written out."""
        return self.part.size * (max(1, self.least) if self.most is None else self.most)

    @property
    def width(self):
        """How many characters it matches, where looking back asks for one number."""
        return self.part.width * self.least

    @cached_property
    def may_be_empty(self):
        """Whether it can match nothing."""
        return self.least == 0 or self.part.may_be_empty

    def giving_back(self):
        """The same, but it gives back what it has taken where what follows fails."""
        return Repeat(self.part, self._times.removesuffix("+") or "+")

    def written(self):
        """The part for `re`."""
        return self.part.written() + self._times


class Group:
    """One of several sequences, in the order in which they are tried.

    Parameters
    ----------
    opened : str
        ``(?:`` or ``(?i:``; or what looks: ``(?=``, ``(?!``, ``(?<=``, ``(?<!``.
    sequences : list of list
        Of parts.
    """

    def __init__(self, opened, sequences):
        self.opened, self.sequences = opened, sequences
        self.looks = opened[2] in "=!<"
        self.repeatable = not self.looks

    @cached_property
    def size(self):
        """How many characters it has when its counts are written out."""
        return 1 + sum(part.size for sequence in self.sequences for part in sequence)

    @property
    def width(self):
        """How many characters it matches, where looking back asks for one number."""
        return 0 if self.looks else sum(part.width for part in self.sequences[0])

    @property
    def width_behind(self):
        """How many characters before it begins what it looks at."""
        return sum(part.width for part in self.sequences[0]) if "<" in self.opened else 0

    @cached_property
    def may_be_empty(self):
        """Whether it can match nothing."""
        return self.looks or any(all(part.may_be_empty for part in sequence)
                                 for sequence in self.sequences)

    def written(self):
        """The part for `re`."""
        inside = "|".join("".join([part.written() for part in sequence])
                          for sequence in self.sequences)
        return f"{self.opened}{inside})"
