"""Statistics of attention weights: entropy, mean distance, and rollout through all layers."""

import numpy as np

from numformer.checks import check_array, check_number, check_whole


def attention_entropy(weights):
    r"""The mean entropy of a head's weights: 0 bits for one key, log2 n for n equal weights.

    .. math:: h = \Big\langle -\sum_j p_{ij} \log_2 p_{ij} \Big\rangle_i

    Parameters
    ----------
    weights : ndarray, shape (..., T, S)

    Returns
    -------
    ndarray, shape (...), bits

    Raises
    ------
    ValueError, TypeError
        If weights are not an array of floats with at least two axes.

    References
    ----------
    Clark et al. (2019), "What Does BERT Look At?", section 3.3, there in nats.

    Examples
    --------
    >>> attention_entropy(np.array([[1.0, 0.0], [0.5, 0.5]]))         # 0 and 1 bit
    np.float64(0.5)
    """
    check_array("attention_entropy", "weights", weights, "(..., T, S)")
    logarithms = np.log2(weights, where=weights > 0, out=np.zeros_like(weights))
    return 0.0 - (weights * logarithms).sum(axis=-1).mean(axis=-1)     # and never -0.0


def attention_distance(weights):
    r"""The mean distance of a head's weights in tokens; the last query is aligned with the last
    key.

    .. math:: d = \Big\langle \sum_j p_{ij}\, |i + S - T - j| \Big\rangle_i

    Parameters
    ----------
    weights : ndarray, shape (..., T, S)

    Returns
    -------
    ndarray, shape (...), tokens

    Raises
    ------
    ValueError, TypeError
        If weights are not an array of floats with at least two axes.

    References
    ----------
    Vig and Belinkov (2019), "Analyzing the Structure of Attention in a Transformer Language Model",
    eq. 2.

    Examples
    --------
    >>> attention_distance(np.array([[1.0, 0.0], [0.5, 0.5]]))
    np.float64(0.25)
    """
    sizes = check_array("attention_distance", "weights", weights, "(..., T, S)")
    T, S = sizes["T"], sizes["S"]
    distance = np.abs(np.arange(T)[:, None] + (S - T) - np.arange(S))
    return (weights * distance).sum(axis=-1).mean(axis=-1)


def attention_rollout(weights, residual=0.5):
    r"""Attention rollout: the product over layers of the mean attention weights with a residual.

    .. math::

        R_\ell = \left( r I + (1 - r) \langle P_{\ell, h} \rangle_h \right) R_{\ell - 1}, \qquad
        R_0 = I

    Each position attends to itself with an additional weight r, which models the residual stream.
    Values and feed-forwards are ignored: rollout shows where information can flow, not what it is.

    Parameters
    ----------
    weights : list of ndarray, each of shape (H, T, T)
        Weights of each layer, from the first to the last.
    residual : float in [0, 1)
        r.

    Returns
    -------
    ndarray, shape (T, T)
        Rows sum to 1.

    Raises
    ------
    ValueError, TypeError
        If there are no layers, shapes differ, weights are not self-attention, or r is out of range.

    References
    ----------
    Abnar and Zuidema (2020), "Quantifying Attention Flow in Transformers", eq. 1.

    Examples
    --------
    >>> previous = np.array([[[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> attention_rollout([previous, previous])
    array([[1.  , 0.  , 0.  ],
           [0.75, 0.25, 0.  ],
           [0.25, 0.5 , 0.25]])
    """
    check_number("attention_rollout", "residual", residual, least=0, below=1)
    check_layers("attention_rollout", weights)
    T, S = weights[0].shape[1:]
    if any(layer.shape[1:] != (T, T) for layer in weights):
        raise ValueError(f"attention_rollout: weights of shape {weights[0].shape} are not "
                         "self-attention of one length; give weights of shape (H, T, T), all with "
                         f"T={T}.")
    reach = np.eye(T, dtype=weights[0].dtype)
    for layer in weights:
        reach = (residual * np.eye(T) + (1 - residual)
                 * layer.mean(axis=0)).astype(reach.dtype) @ reach
    return reach


def distinctive_heads(weights, count=4):
    """The heads that attend least alike: the sharpest, then always the one furthest from those.

    The distance of two heads is the total variation of their weights, the mean over queries.

    Parameters
    ----------
    weights : list of ndarray, each of shape (H, T, S)
        Weights of each layer.
    count : int
        How many heads to choose; fewer are chosen if there are not as many.

    Returns
    -------
    list of (int, int)
        Layer and head, from 0, in this order.

    Raises
    ------
    ValueError, TypeError
        If there are no layers, shapes differ, or the count is not a whole number above 0.

    Examples
    --------
    >>> own, next_one = np.eye(3), np.eye(3)[[1, 2, 0]]
    >>> distinctive_heads([np.array([own, own]), np.array([np.full((3, 3), 1 / 3), next_one])], 3)
    [(0, 0), (1, 1), (1, 0)]
    """
    check_layers("distinctive_heads", weights)
    check_whole("distinctive_heads", "count", count)
    if len({layer.shape for layer in weights}) > 1:
        raise ValueError("distinctive_heads: layers have weights of different shapes "
                         f"{sorted({layer.shape for layer in weights})}; give one shape.")
    heads = np.concatenate(weights)                                   # (L H, T, S)
    H = len(weights[0])
    found = [int(attention_entropy(heads).argmin())]
    nearest = np.full(len(heads), np.inf)                             # distance to those found
    while len(found) < min(count, len(heads)):
        apart = np.abs(heads - heads[found[-1]]).sum(axis=-1).mean(axis=-1) / 2
        nearest = np.minimum(nearest, apart)
        nearest[found] = -1
        found.append(int(nearest.argmax()))
    return [divmod(head, H) for head in found]


def check_layers(owner, weights):
    """Check a list of attention weights, (H, T, S) of each layer, with one H."""
    if not len(weights):
        raise ValueError(f"{owner}: there are no layers.")
    H = None
    for layer in weights:
        H = check_array(owner, "weights of a layer", layer, "(H, T, S)",
                        **({} if H is None else {"H": H}))["H"]
