"""Associative recall: contexts of examples whose mapping is new in each.

A context samples some keys (lower-case letters) and a value (an upper-case letter) for each. Its
examples are a key and its value: "hFcAbAhF". No weight can hold a mapping that is
sampled for each context: what a key means is to be read from the examples before it.
"""

import numpy as np

from numformer.checks import check_whole

KEYS, VALUES = "abcdefgh", "ABCDEFGH"
CHARACTERS = VALUES + KEYS                           # in the order of a `CharacterTokenizer`
EXAMPLE = 2                                          # characters: key, value
FEWEST_KEYS, MOST_KEYS = 3, 8                        # of a context


def recall_examples(n, examples, rng, keys=None, periodic=None):
    """Sample the examples of n contexts, each with a mapping of its own.

    Every example has a random key of those of its context, so the last example with the same key is
    at any distance, or missing. In a periodic context all keys come in turn, again and again: the
    period is the number of keys.

    Parameters
    ----------
    n : int
        Contexts.
    examples : int
        N, examples of a context.
    rng : numpy.random.Generator
    keys : int, optional
        How many keys a context has; 3 to 8, sampled, unless given.
    periodic : ndarray of bool, shape (n,), optional
        Which contexts are periodic; none unless given.

    Returns
    -------
    keys, values : ndarray of int, shape (n, N)
        Numbers of letters, 0 to 7. Two keys may have the same value.

    Raises
    ------
    ValueError
        If a size is not a whole number above 0, or there are more keys than letters.

    Examples
    --------
    >>> keys, values = recall_examples(1, 5, np.random.default_rng(1), keys=3)
    >>> recall_text(keys[0], values[0])
    'eCeCcEcEhA'
    """
    for name, size in (("n", n), ("examples", examples)):
        check_whole("recall_examples", name, size)
    if keys is not None:
        check_whole("recall_examples", "keys", keys)
        if keys > len(KEYS):
            raise ValueError(f"recall_examples: keys={keys} must be at most {len(KEYS)}, the "
                             "number of letters.")
    order = rng.random((n, len(KEYS))).argsort(axis=1)                # letters, shuffled
    counts = rng.integers(FEWEST_KEYS, MOST_KEYS + 1, size=(n, 1)) if keys is None else keys
    which = rng.integers(0, counts, size=(n, examples))               # (n, N)
    if periodic is not None:
        which = np.where(periodic[:, None], np.arange(examples) % counts, which)
    chosen = np.take_along_axis(order, which, axis=1)
    mapping = rng.integers(0, len(VALUES), size=(n, len(KEYS)))
    return chosen, np.take_along_axis(mapping, chosen, axis=1)


def recall_ids(keys, values):
    """The token ids of contexts, (n, 2 N): key and value of each example.

    Parameters
    ----------
    keys, values : ndarray of int, shape (n, N)
    """
    ids = np.stack([len(VALUES) + keys, values], axis=-1)             # (n, N, 2)
    return ids.reshape(len(keys), -1).astype(np.int64)


def recall_text(keys, values):
    """One context as text.

    Parameters
    ----------
    keys, values : sequence of int
    """
    return "".join(KEYS[key] + VALUES[value] for key, value in zip(keys, values))


def earlier_examples(keys):
    """Which earlier examples have the key of each example: bool, (n, N, N).

    Parameters
    ----------
    keys : ndarray of int, shape (n, N)

    Examples
    --------
    >>> earlier_examples(np.array([[7, 2, 7]]))[0].astype(int)
    array([[0, 0, 0],
           [0, 0, 0],
           [1, 0, 0]])
    """
    N = keys.shape[1]
    return (keys[:, :, None] == keys[:, None, :]) & np.tri(N, k=-1, dtype=bool)
