"""Options of the attention kernel and tiles at random, for the tests of its parts."""

import numpy as np
import plain_python  # noqa: F401  (puts the replacements in place)

from numformer.kernels.attention import tiles

NO_MASK = np.zeros((1, 1, 0, 0), bool)


def options_of(T, S, first=None, last=None, **more):
    """Everything allowed and nothing added, unless given."""
    first = np.zeros((1, T), np.int32) if first is None else np.asarray(first, np.int32)
    last = np.full((1, T), S, np.int32) if last is None else np.asarray(last, np.int32)
    usual = dict(mask=NO_MASK, scale=1.0, softcap=0.0, slopes=np.zeros(0), bias=np.zeros((0, 0)),
                 threshold=0, keep_scale=1.0, seed_high=0, seed_low=0)
    return tiles.Options(first, last, **(usual | more), T=T, S=S)


def random_tile(rng):
    """(options, b, h, i0, i1, j0, j1): a pattern for B = 3 and H = 2, and a tile of it."""
    T, S = (int(n) for n in rng.integers(1, 9, 2))
    examples = int(rng.choice([1, 3]))
    first, last = np.sort(rng.integers(0, S + 1, (2, examples, T)))     # as those of a pattern
    if rng.random() < 0.2:
        first, last = 0 * first, 0 * last + S
    mask = NO_MASK
    if rng.random() < 0.5:
        shape = int(rng.choice([1, 3])), int(rng.choice([1, 2])), T, S
        mask = rng.random(shape) < rng.choice([0.05, 0.5, 0.95, 1])
    i0, j0 = int(rng.integers(T)), int(rng.integers(S))
    return (options_of(T, S, first, last, mask=mask), int(rng.integers(3)), int(rng.integers(2)),
            i0, int(rng.integers(i0, T)) + 1, j0, int(rng.integers(j0, S)) + 1)
