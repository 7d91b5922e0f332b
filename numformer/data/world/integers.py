"""A small generator of integers: the same on every Python and every machine."""

MASK = 2**64 - 1


class Integers:
    """SplitMix64: whole numbers of 64 bits from a seed, in Python's own integers.

    Python and NumPy may change how their generators turn bits into choices; this one cannot.

    Parameters
    ----------
    seed : int
        Any whole number; its last 64 bits count.

    References
    ----------
    Steele, Lea, Flood (2014), "Fast Splittable Pseudorandom Number Generators".

    Examples
    --------
    >>> hex(Integers(1234567).next())
    '0x599ed017fb08fc85'
    >>> integers = Integers(1)
    >>> [integers.below(6) for _ in range(5)]
    [3, 4, 5, 2, 2]
    """

    def __init__(self, seed):
        self.state = seed & MASK

    def next(self):
        """The next number, 0 .. 2**64 - 1."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def below(self, n):
        """A number in 0 .. n - 1. The high bits decide, so that the bias is below n / 2**64."""
        return self.next() * n >> 64

    def choice(self, items):
        """One item of a sequence."""
        return items[self.below(len(items))]

    def sample(self, items, n):
        """n different items of a sequence, in random order."""
        left = list(items)
        return [left.pop(self.below(len(left))) for _ in range(n)]
