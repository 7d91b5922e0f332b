"""Branches of a seed: each purpose in a run has random numbers of its own.

So what one of them takes does not change the others: a run samples texts, and its batches stay.
"""

import numpy as np

(WEIGHTS,                                             # the initial ones
 ORDER,                                               # shuffled examples, random positions
 DROPOUT,
 SAMPLES,                                             # texts in the log; batches by length
 NOISE,
 STATIC_MASKS,
 DYNAMIC_MASKS,
 CURRICULUM,
 WRONG_INPUTS,
 CONTEXTS,
 ANSWERS) = range(11)                                 # sampled ones, to learn from
BY_LENGTH = SAMPLES


def branch(seed, purpose, *numbers):
    """The generator of a purpose, one of the names above, and of a step, an epoch or a row.

    Examples
    --------
    >>> one, other = (branch(1337, DROPOUT, step) for step in (0, 1))
    >>> bool(one.random() == branch(1337, DROPOUT, 0).random()), one.random() == other.random()
    (True, False)
    """
    return np.random.default_rng([seed, purpose, *numbers])
