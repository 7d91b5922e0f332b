"""What a preset is: a model, a task (data and measures), its training, and claims about it."""

from typing import NamedTuple

from numformer.recipes.task import Task


class Claim(NamedTuple):
    """What must hold for the median over seeds.

    Parameters
    ----------
    figure : str
        A result of `numformer eval`: ``val_loss``, ``bits_per_character``, or a task's measure.
    bound : float, optional
        The largest value allowed; the smallest, if more is better.
    ahead_of : tuple of str
        Presets whose median must be worse.
    beats : str, optional
        Another figure of the same run whose median must be worse, such as a simpler method's.
    more_is_better : bool
        False for a loss, True for an accuracy.

    Examples
    --------
    >>> Claim("exact", 0.99, more_is_better=True).holds({"exact": 0.995}, {})
    True
    >>> Claim(ahead_of=("rnn",)).holds({"val_loss": 1.3}, {"rnn": 1.2})
    False
    """

    figure: str = "val_loss"
    bound: float | None = None
    ahead_of: tuple = ()
    beats: str | None = None
    more_is_better: bool = False

    def holds(self, medians, others):
        """Whether it holds; None if a preset that it names was not measured. Of NaN nothing holds.

        Parameters
        ----------
        medians : dict of str to float
            Over seeds, of every figure of the preset itself.
        others : dict of str to float
            Of this claim's figure, for each preset that was measured, by name.
        """
        sign = -1 if self.more_is_better else 1
        median = sign * medians[self.figure]
        worse = [sign * others[name] for name in self.ahead_of if name in others]
        worse += [] if self.beats is None else [sign * medians[self.beats]]
        if self.bound is not None and not median <= sign * self.bound:   # NaN is within no bound
            return False
        if not all(median < other for other in worse):
            return False
        return True if all(name in others for name in self.ahead_of) else None

    def __str__(self):
        limit = "at least" if self.more_is_better else "at most"
        bound = [] if self.bound is None else [f"{limit} {self.bound:g}"]
        beats = [] if self.beats is None else [f"better than {self.beats.replace('_', ' ')}"]
        return ", ".join(bound + beats + [f"ahead of {name}" for name in self.ahead_of]) or "-"


def more(figure, bound=None, **others):
    """A claim about a figure for which higher is better."""
    return Claim(figure, bound, more_is_better=True, **others)


class Preset(NamedTuple):
    """A named run: what `numformer train --preset NAME` trains, and how.

    Parameters
    ----------
    model : dict
        Fields of the model's config, but for those that the data determine, such as `vocab_size`.
    training : dict
        Fields of `TrainingConfig`.
    task : Task
        The data, and how a trained model is measured.
    kind : str
        The kind of model: a name in `numformer.models.KINDS`.
    recipe : dict
        Options of the kind's recipe: what helps a run of minutes but is in no published config.
    claims : tuple of Claim
        Results that it reaches; `numformer reproduce` verifies them.
    claims_from : dict of str to tuple of Claim
        The same for runs that load the backbone of another run, or have it as their teacher, by its
        name: that of a preset, or A-from-B.
    """

    model: dict
    training: dict
    task: Task
    kind: str = "Decoder"
    recipe: dict = {}
    claims: tuple = ()
    claims_from: dict = {}


def preset_and_start(name):
    """Split a name: the preset, and the run that it starts from or that teaches it, or None.

    Examples
    --------
    >>> preset_and_start("topics-from-bert"), preset_and_start("topics")
    (('topics', 'bert'), ('topics', None))
    >>> preset_and_start("tinybert-from-topics-from-bert")
    ('tinybert', 'topics-from-bert')
    """
    preset, _, start = name.partition("-from-")
    return preset, start or None


def all_claims(presets):
    """The claims of all presets that have some, by name; "A-from-B" begins with a run of B."""
    claims = {}
    for name, preset in presets.items():
        claims[name] = preset.claims
        claims |= {f"{name}-from-{start}": own for start, own in preset.claims_from.items()}
    return {name: own for name, own in claims.items() if own}
