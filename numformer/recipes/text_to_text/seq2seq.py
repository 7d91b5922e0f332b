"""Sequence to sequence with GRUs, with and without attention: written dates to ISO 8601."""

from functools import lru_cache
from itertools import pairwise

import numpy as np

from numformer.data import date_pairs
from numformer.recipes.text_to_text.pairs import Pairs, PairTask
from numformer.recipes.preset import Preset, more

TRAINING, HELD_OUT = 20000, 1000                                      # pairs
LENGTHS = (8, 12, 16, 20, 40)                                         # bins: 8 to 11, ...


class DateTask(PairTask):
    """Dates in many forms to one: "Tuesday, 3rd of March, 2031" to "2031-03-03".

    Measured on held-out dates: the fraction of exact answers, over all and by length of the source.
    """

    name = "dates"
    unit = "nats per character"
    longest = 16
    alignment = "Attention from output to source characters"

    def pairs(self):
        return _pairs()

    def measure(self, model, tokenizer, dataset):
        right = np.array(self.right(model, tokenizer, dataset.held_out))
        lengths = np.array([len(source) for source, _ in dataset.held_out])
        measures = {"exact": float(right.mean())}
        for least, below in pairwise(LENGTHS):
            chosen = right[(lengths >= least) & (lengths < below)]
            if chosen.size:
                measures[_exact(least, below)] = float(chosen.mean())
        return measures

    def shown(self):
        """The longest held-out date."""
        return max((source for source, _ in self.pairs().held_out), key=len)


@lru_cache(maxsize=1)
def _pairs():
    return Pairs("written dates", date_pairs(TRAINING, seed=0),
                 date_pairs(HELD_OUT, seed=0, held_out=True))


def _exact(least, below):
    return f"exact_{least}_to_{below - 1}"


def _by_length(**claim):
    """A claim for each bin of source lengths."""
    return tuple(more(_exact(least, below), **claim) for least, below in pairwise(LENGTHS))


_DATES = DateTask()
_SIZES = dict(d_model=32, d_hidden=64)
_TRAINING = dict(steps=1500, batch_size=128, learning_rate=4e-3, min_learning_rate=0.0,
                 warmup_steps=50, weight_decay=0.0, eval_every=500, save_every=500)
_BETTER = dict(ahead_of=("seq2seq-no-attention",))

PRESETS = {
    # Bahdanau, Cho, Bengio (2015), smaller: characters, and a GRU of one layer
    "seq2seq": Preset(_SIZES, _TRAINING, _DATES, "Seq2Seq",
                      claims=(more("exact", 0.99, **_BETTER), *_by_length(**_BETTER))),
    # Without attention, as in Cho et al. (2014): the decoder has the encoder's last states alone
    "seq2seq-no-attention": Preset(dict(_SIZES, attention="none"), _TRAINING, _DATES, "Seq2Seq",
                                   claims=(more("exact"), *_by_length())),
}
