"""The task of written dates: read one as people write it, and write it as ISO 8601 does."""

from functools import lru_cache

import numpy as np

from numformer.datasets import date_pairs
from numformer.tasks.pairs import Pairs, PairTask

TRAINING, HELD_OUT = 20000, 1000                                      # pairs
LENGTHS = (8, 12, 16, 20, 40)                                         # bounds of the bins of source lengths: up to 11, 15, 19, and the rest


class DateTask(PairTask):
    """Dates in many forms to one: "Tuesday, 3rd of March, 2031" to "2031-03-03".

    Measured on dates that no form of was seen: how many are right, and how many of those whose sources are so and so long.
    """

    name = "dates"
    kinds = ("Seq2Seq",)
    unit = "nats a character"
    longest = 16
    alignment = "Where the decoder looked for what it wrote"

    def pairs(self):
        return _pairs()

    def measure(self, model, tokenizer, material):
        right = np.array(self.right(model, tokenizer, material.held_out))
        lengths = np.array([len(source) for source, _ in material.held_out])
        measured = {"exact": float(right.mean())}
        for least, below in zip(LENGTHS, LENGTHS[1:]):
            chosen = right[(lengths >= least) & (lengths < below)]
            if chosen.size:
                measured[f"exact_{least}_to_{below - 1}"] = float(chosen.mean())
        return measured

    def shown(self):
        """The longest date that was held out."""
        return max((source for source, _ in self.pairs().held_out), key=len)


@lru_cache(maxsize=1)
def _pairs():
    return Pairs("written dates", date_pairs(TRAINING, seed=0), date_pairs(HELD_OUT, seed=0, held_out=True))
