"""Patterns of attention heads: the weight on the next, the previous and the own token, and others.
"""

import numpy as np

from numformer.analysis.attention_statistics import attention_entropy, check_layers
from numformer.analysis.capture import attention_by_layer
from numformer.checks import check_array

PATTERNS = "previous", "own", "next", "first", "separator", "broad"


def pattern_targets(T, separators=()):
    """Which keys the patterns of Clark et al. want, for every query of a text of T tokens.

    Parameters
    ----------
    T : int
    separators : sequence of int
        The positions of [SEP], or of other tokens that end a part.

    Returns
    -------
    dict of str to ndarray of bool, shape (T, T)
        "previous", "own", "next", "first" and, if there are separators, "separator". The queries of
        the last two are the tokens that are not such tokens themselves; a query that has no such
        key has a row of False.

    Examples
    --------
    >>> targets = pattern_targets(3, separators=[2])
    >>> targets["next"].astype(int)
    array([[0, 1, 0],
           [0, 0, 1],
           [0, 0, 0]])
    >>> targets["separator"].astype(int)
    array([[0, 0, 1],
           [0, 0, 1],
           [0, 0, 0]])
    """
    first, ends = np.arange(T) == 0, np.isin(np.arange(T), list(separators))
    targets = {"previous": np.eye(T, k=-1, dtype=bool), "own": np.eye(T, dtype=bool),
               "next": np.eye(T, k=1, dtype=bool), "first": ~first[:, None] & first}
    if ends.any():
        targets["separator"] = ~ends[:, None] & ends
    return targets


def attention_patterns(texts):
    r"""How much weight each head gives to each pattern: the mean over queries that have such a key.

    .. math:: s_h = \Big\langle \sum_{j \in J(i)} p_{h, i, j} \Big\rangle_i, \qquad
              \text{broad: } \Big\langle \frac{H(p_{h, i})}{\log S} \Big\rangle_i

    Broad heads attend to all tokens alike: entropy H relative to that of equal weights. A head with
    equal weights has 1 there, and 1 / S for each single key of the others.

    Parameters
    ----------
    texts : list of (list of ndarray, each of shape (H, T, T), sequence of int)
        For every text, the weights of each layer, without padding, and the positions of its
        separators; T is 2 or more.

    Returns
    -------
    dict of str to ndarray of float64, shape (layers, H), in [0, 1]
        By the names in `PATTERNS`; "separator" only if a text has separators.

    Raises
    ------
    ValueError, TypeError
        If there are no texts, or weights are not self-attention.

    References
    ----------
    Clark et al. (2019), "What Does BERT Look At? An Analysis of BERT's Attention", section 3.

    Examples
    --------
    >>> previous, equal = np.eye(3)[[0, 0, 1]], np.full((3, 3), 1 / 3)
    >>> scores = attention_patterns([([np.array([previous, equal])], [2])])
    >>> {name: score[0].round(2).tolist() for name, score in scores.items()}
    ... # doctest: +NORMALIZE_WHITESPACE
    {'previous': [1.0, 0.33], 'own': [0.33, 0.33], 'next': [0.0, 0.33], 'first': [0.5, 0.33],
     'separator': [0.0, 0.33], 'broad': [0.0, 1.0]}
    """
    owner = "attention_patterns"
    if not len(texts):
        raise ValueError(f"{owner}: texts is empty; give the weights of at least one text.")
    sums, queries = {}, {}
    for weights, separators in texts:
        check_layers(owner, weights)
        T = len(weights[0][0])
        if T < 2 or any(layer.shape[1:] != (T, T) for layer in weights):
            raise ValueError(f"{owner}: weights of shape {weights[0].shape} are not self-attention "
                             "of two tokens or more; give weights of shape (H, T, T).")
        p = np.stack(weights).astype(np.float64)                      # (layers, H, T, T)
        check_array(owner, "weights", p, "(layers, H, T, T)")
        for name, wanted in pattern_targets(T, separators).items():
            sums[name] = sums.get(name, 0) + (p * wanted).sum(axis=(2, 3))
            queries[name] = queries.get(name, 0) + wanted.any(axis=1).sum()
        sums["broad"] = sums.get("broad", 0) + T * attention_entropy(p) / np.log2(T)
        queries["broad"] = queries.get("broad", 0) + T
    return {name: sums[name] / queries[name] for name in PATTERNS if name in sums}


def weights_of_rows(model, rows):
    """The attention weights of an encoder for every row of a batch, without padding.

    Parameters
    ----------
    model : Layer
        Of ids, segments and lengths.
    rows : Batch
        With ``ids``, ``segments`` and ``lengths``.

    Returns
    -------
    list of list of ndarray, each of shape (H, n, n)
        Of every row those of each layer; n is the row's length.
    """
    layers = attention_by_layer(model, rows.ids, rows.segments, rows.lengths).values()
    return [[layer[b, :, :n, :n] for layer in layers] for b, n in enumerate(rows.lengths)]
