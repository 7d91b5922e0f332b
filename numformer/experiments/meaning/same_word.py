"""The same word twice in a sentence: only positions make its two outputs differ."""

import numpy as np

from numformer.layers.positions.schemes import ADDED, IN_ATTENTION
from numformer.models import BertEncoder, BertEncoderConfig

SENTENCE = "a big dog and a big cat".split()
WORD = "big"
KINDS = "none", *ADDED, *IN_ATTENTION


def same_word_differences(seed):
    """How far the two outputs of the word are apart, for each kind of positions.

    The encoders have random weights, in float64. Without positions, both occurrences have the same
    query, keys and values, so their outputs are equal but for rounding.

    Returns
    -------
    dict of str to float
        The norm of the difference, divided by the norm of the output.

    Examples
    --------
    >>> differences = same_word_differences(0)
    >>> differences["none"] < 1e-12, min(differences[kind] for kind in KINDS[1:]) > 1e-3
    (True, True)
    """
    ids = np.array([[sorted(set(SENTENCE)).index(word) for word in SENTENCE]])
    first, second = (t for t, word in enumerate(SENTENCE) if word == WORD)
    differences = {}
    for kind in KINDS:
        config = BertEncoderConfig(
            vocab_size=len(set(SENTENCE)), context_length=8, n_layers=2, n_heads=2, d_model=16,
            positions=kind, init_std=0.3, segments=0, dtype="float64")
        y = BertEncoder(config, np.random.default_rng([seed, 1]))(ids)[0]         # (T, C)
        differences[kind] = float(np.linalg.norm(y[first] - y[second]) / np.linalg.norm(y[first]))
    return differences
