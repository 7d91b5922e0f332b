"""What presets are said to reach: `numformer reproduce` trains them and sees whether it is so."""

from typing import NamedTuple


class Claim(NamedTuple):
    """What must hold of the median over the seeds.

    Parameters
    ----------
    figure : str
        What `numformer eval` says of a run: ``val_loss``, ``bits_per_character``, or what the task measures beside.
    bound : float, optional
        At most so much; or at least, where more is better.
    ahead_of : tuple of str
        Presets whose median must be worse.
    more_is_better : bool

    Examples
    --------
    >>> Claim("exact", 0.99, more_is_better=True).holds(0.995, {}), Claim(ahead_of=("rnn",)).holds(1.3, {"rnn": 1.2})
    (True, False)
    """

    figure: str = "val_loss"
    bound: float | None = None
    ahead_of: tuple = ()
    more_is_better: bool = False

    def holds(self, median, others):
        """Whether it holds; None where a preset that it names is not among the medians of the others."""
        sign = -1 if self.more_is_better else 1
        if self.bound is not None and sign * median > sign * self.bound:
            return False
        if any(name in others and sign * median >= sign * others[name] for name in self.ahead_of):
            return False
        return True if all(name in others for name in self.ahead_of) else None

    def __str__(self):
        bound = [] if self.bound is None else [f"{'at least' if self.more_is_better else 'at most'} {self.bound:g}"]
        return ", ".join(bound + [f"ahead of {name}" for name in self.ahead_of]) or "-"


CLAIMS = {
    "ngram": Claim("bits_per_character", 1.76),
    "rnn": Claim(),
    "lstm": Claim(ahead_of=("rnn",)),
    "cnn": Claim(),
    "decoder-2017": Claim(ahead_of=("lstm",)),
    "gpt": Claim(ahead_of=("lstm",)),
    "llama": Claim(ahead_of=("lstm", "gpt", "decoder-2017")),
    "moe": Claim(ahead_of=("lstm",)),
}
