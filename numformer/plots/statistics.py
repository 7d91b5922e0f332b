"""What attention weights amount to: how spread out a head looks, how far, and what reaches what through all layers."""

import numpy as np

from numformer.checks import check_array, check_number


def attention_entropy(weights):
    r"""How spread out the looks of a head are: 0 bits where every query looks at one key, log2 n where it looks at n alike.

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
        If weights are no array of floats with two axes or more.

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
    r"""How far a head looks, in tokens; the last query stands at the last key.

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
        If weights are no array of floats with two axes or more.

    References
    ----------
    Vig and Belinkov (2019), "Analyzing the Structure of Attention in a Transformer Language Model", eq. 2.

    Examples
    --------
    >>> attention_distance(np.array([[1.0, 0.0], [0.5, 0.5]]))
    np.float64(0.25)
    """
    sizes = check_array("attention_distance", "weights", weights, "(..., T, S)")
    T, S = sizes["T"], sizes["S"]
    away = np.abs(np.arange(T)[:, None] + (S - T) - np.arange(S))
    return (weights * away).sum(axis=-1).mean(axis=-1)


def attention_rollout(weights, residual=0.5):
    r"""How much of each input reaches each place, if layers only mixed: the product of all layers' mean weights.

    .. math:: R_\ell = \left( r I + (1 - r) \langle P_{\ell, h} \rangle_h \right) R_{\ell - 1}, \qquad R_0 = I

    The residual stream carries a place's own vector past every layer, as if it looked at itself with weight r. Values and the
    feed-forward are left out: this is a picture of the ways, not of what goes along them.

    Parameters
    ----------
    weights : list of ndarray, each of shape (H, T, T)
        Of every layer, the first one first.
    residual : float in [0, 1)
        r.

    Returns
    -------
    ndarray, shape (T, T)
        Rows sum to 1.

    Raises
    ------
    ValueError, TypeError
        If there are no layers, shapes differ, or they are no self-attention; if r lies outside.

    References
    ----------
    Abnar and Zuidema (2020), "Quantifying Attention Flow in Transformers", eq. 1.

    Examples
    --------
    >>> looks_back = np.array([[[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])      # each at the one before
    >>> attention_rollout([looks_back, looks_back])
    array([[1.  , 0.  , 0.  ],
           [0.75, 0.25, 0.  ],
           [0.25, 0.5 , 0.25]])
    """
    check_number("attention_rollout", "residual", residual, least=0, below=1)
    check_layers("attention_rollout", weights)
    T, S = weights[0].shape[1:]
    if any(layer.shape[1:] != (T, T) for layer in weights):
        raise ValueError(f"attention_rollout: weights of shape {weights[0].shape} do not lead from the same places to the same places; "
                         f"give those of self-attention, all with T={T}.")
    reach = np.eye(T, dtype=weights[0].dtype)
    for layer in weights:
        reach = (residual * np.eye(T) + (1 - residual) * layer.mean(axis=0)).astype(reach.dtype) @ reach
    return reach


def check_layers(owner, weights):
    """Check a list of attention weights, (H, T, S) of each layer, with one H."""
    if not len(weights):
        raise ValueError(f"{owner}: there are no layers.")
    H = None
    for layer in weights:
        H = check_array(owner, "weights of a layer", layer, "(H, T, S)", **({} if H is None else {"H": H}))["H"]
