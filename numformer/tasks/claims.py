"""What presets are said to reach: `numformer reproduce` trains them and sees whether it is so."""

from itertools import pairwise
from typing import NamedTuple

from numformer.datasets import INSTRUCTIONS
from numformer.tasks.dates import LENGTHS
from numformer.tasks.denoise import NOISES


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
    beats : str, optional
        Another figure of the same run, whose median must be worse: what a simpler way reaches.
    more_is_better : bool

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
        """Whether it holds of a run's median figures, and of this figure of other presets; None where one that it names is missing."""
        sign = -1 if self.more_is_better else 1
        median = sign * medians[self.figure]
        if self.bound is not None and median > sign * self.bound:
            return False
        if self.beats is not None and median >= sign * medians[self.beats]:
            return False
        if any(name in others and median >= sign * others[name] for name in self.ahead_of):
            return False
        return True if all(name in others for name in self.ahead_of) else None

    def __str__(self):
        bound = [] if self.bound is None else [f"{'at least' if self.more_is_better else 'at most'} {self.bound:g}"]
        beats = [] if self.beats is None else [f"better than {self.beats.replace('_', ' ')}"]
        return ", ".join(bound + beats + [f"ahead of {name}" for name in self.ahead_of]) or "-"


def _more(figure, bound=None, **others):
    """A claim of a figure of which more is better."""
    return Claim(figure, bound, more_is_better=True, **others)


def parts_of(name):
    """The preset of a name in `CLAIMS`, and the one whose run of the same seed it begins with, or None.

    Examples
    --------
    >>> parts_of("topics-from-bert"), parts_of("topics")
    (('topics', 'bert'), ('topics', None))
    """
    preset, _, start = name.partition("-from-")
    return preset, start or None


def _by_length(**others):
    """One for each length of a written date."""
    return tuple(_more(f"exact_{least}_to_{below - 1}", **others) for least, below in pairwise(LENGTHS))


_MASKED = _more("masked_accuracy", beats="n_gram_accuracy")
CLAIMS = {                                                            # of each preset, and of those that begin with the run of another
    "ngram": (Claim("bits_per_character", 1.76),),
    "rnn": (Claim(),),
    "lstm": (Claim(ahead_of=("rnn",)),),
    "cnn": (Claim(),),
    "decoder-2017": (Claim(ahead_of=("lstm",)),),
    "gpt": (Claim(ahead_of=("lstm",)),),
    "llama": (Claim(ahead_of=("lstm", "decoder-2017")),),
    "moe": (Claim(ahead_of=("lstm",)),),
    "seq2seq": (_more("exact", 0.99, ahead_of=("seq2seq-no-attention",)), *_by_length(ahead_of=("seq2seq-no-attention",))),
    "seq2seq-no-attention": (_more("exact"), *_by_length()),
    "translate": (_more("exact", 0.99),),
    "t5": tuple(_more(task, 0.98) for task in INSTRUCTIONS),
    "t5-spans": (_more("span_accuracy"), _more("n_gram_accuracy")),       # side by side: a few minutes are not enough for it
    # Infilled documents come out no better than copied ones: a wrong guess of how much is missing moves all that follows
    "bart": tuple(claim for noise in NOISES for claim in (
        _more(f"restored_{noise}", beats=None if noise == "infilled" else f"copied_{noise}"), _more(f"copied_{noise}"))),
    "bert": (_MASKED, _more("next_sentence_accuracy", 0.8)),
    "roberta": (_MASKED,),
    "modernbert": (_MASKED,),
    "topics": (_more("accuracy"),),
    "topics-from-bert": (_more("accuracy"),),
    "few-topics": (_more("accuracy"),),
    "few-topics-from-bert": (_more("accuracy", ahead_of=("few-topics",)),),
    "sbert": (_more("recall_at_1", beats="recall_at_1_before"),),
    "sbert-from-bert": (_more("recall_at_1", beats="recall_at_1_before", ahead_of=("sbert",)),),
    "vit": (_more("accuracy", 0.98),),
}
