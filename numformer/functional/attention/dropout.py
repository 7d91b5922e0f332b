"""Dropout of attention weights, by a hash that needs no stored mask."""

import numpy as np

from numformer.checks import check_array, check_number
from numformer.functional.dropout_hash import attention_dropout_mask, check_seed


def drop_weights(p, rate=0.0, seed=None):
    r"""Set each attention weight to 0 with probability `rate`, and scale up the others.

    .. math:: w_{ij} = d_{ij}\, p_{ij}, \qquad
              d_{ij} = \frac{1}{1 - \text{rate}} \text{ or } 0

    The factor keeps the mean of every weight; a single row of `w` no longer sums to 1.

    Parameters
    ----------
    p : ndarray, shape (B, H, T, S)
        Attention weights.
    rate : float in [0, 1)
    seed : int, 0 .. 2**64 - 1, optional
        Of `attention_dropout_mask`. None: no dropout, as at inference.

    Returns
    -------
    w : ndarray, shape (B, H, T, S)
        `p` itself where there is no dropout.
    saved : tuple
        For `drop_weights_backward`.

    Raises
    ------
    ValueError, TypeError
        If `p` is not such an array, or the rate or the seed is out of range.

    References
    ----------
    Srivastava et al. (2014), "Dropout". On attention weights: the authors' code of Vaswani et al.
    (2017), tensor2tensor.

    Examples
    --------
    >>> drop_weights(np.full((1, 1, 2, 4), 0.25), 0.5, seed=1)[0][0, 0]
    array([[0. , 0.5, 0.5, 0. ],
           [0.5, 0.5, 0.5, 0.5]])
    """
    check_array("drop_weights", "p", p, "(B, H, T, S)")
    if not uses_dropout(rate, seed, "drop_weights"):
        return p, (None,)
    kept = attention_dropout_mask(seed, p.shape, rate)                           # (B, H, T, S)
    d = np.where(kept, 1 / (1 - rate), 0).astype(p.real.dtype)
    w = p * d

    saved = (d,)
    return w, saved


def drop_weights_backward(dw, saved):
    r"""The gradient of `drop_weights`.

    .. math:: \bar{p}_{ij} = d_{ij}\, \bar{w}_{ij}

    Returns
    -------
    dp : ndarray, shape (B, H, T, S)
        `dw` itself where there was no dropout.
    """
    d, = saved

    # w = p * d
    return dw if d is None else dw * d


def uses_dropout(rate, seed, owner="scaled_dot_product_attention"):
    """Check the rate and the seed, and return whether any weights are dropped: both are needed."""
    check_number(owner, "dropout", rate, least=0, below=1)
    if seed is not None:
        check_seed(owner, seed)
    return seed is not None and rate > 0
