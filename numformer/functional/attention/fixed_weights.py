"""Attention weights that no query or key decides: even ones, and weights by distance.

They show what `attention` adds: there the weights depend on what the tokens are.
"""

import numpy as np

from numformer.checks import check_array
from numformer.functional.softmax import softmax, softmax_backward


def uniform_weights(mask, dtype=np.float64):
    r"""Give every key that a query may attend to the same weight.

    .. math:: p_{ij} = \frac{m_{ij}}{\sum_l m_{il}}

    It is the softmax of scores that are all equal. Nothing here has a gradient.

    Parameters
    ----------
    mask : ndarray of bool, shape (..., T, S)
        m, True where a query may attend to a key.
    dtype : float32 or float64
        Of the weights.

    Returns
    -------
    ndarray, shape (..., T, S)
        A query that may attend to no key has weights 0.

    Raises
    ------
    ValueError, TypeError
        If the mask is not an array of bool with two axes or more.

    References
    ----------
    Zhang, Xiong, Su (2018), "Accelerating Neural Transformer via an Average Attention Network",
    with a causal mask.

    Examples
    --------
    >>> uniform_weights(np.tri(3, dtype=bool)).round(2)
    array([[1.  , 0.  , 0.  ],
           [0.5 , 0.5 , 0.  ],
           [0.33, 0.33, 0.33]])
    """
    check_pairs("uniform_weights", mask)
    counts = mask.sum(axis=-1, keepdims=True)                         # (..., T, 1)
    return (mask / np.maximum(counts, 1)).astype(dtype)


def distance_weights(slopes, mask):
    r"""Give a key less weight the farther it is from the query.

    .. math:: p_{hij} = \frac{m_{ij}\, e^{-s_h d_{ij}}}{\sum_l m_{il}\, e^{-s_h d_{il}}}, \qquad
              d_{ij} = |i + S - T - j|

    It is `alibi` on scores of 0, here with slopes that are trained. With slope 0 the weights are
    `uniform_weights`; with a large one, a query attends to the nearest key alone. The last of T
    queries is aligned with the last of S keys.

    Parameters
    ----------
    slopes : ndarray, shape (H,)
        s, one of each head, per position.
    mask : ndarray of bool, shape (T, S), (B, 1, T, S) or (B, H, T, S)
        m, True where a query may attend to a key.

    Returns
    -------
    p : ndarray, shape (H, T, S), or (B, H, T, S) for a mask with a batch
        A query that may attend to no key has weights 0.
    saved : tuple
        For `distance_weights_backward`.

    Raises
    ------
    ValueError, TypeError
        If the slopes are not floats, or the mask is not an array of bool that fits.

    References
    ----------
    Press, Smith, Lewis (2022), "Train Short, Test Long", section 3, without the product of queries
    and keys.

    Examples
    --------
    >>> distance_weights(np.log([2.0]), np.tri(3, dtype=bool))[0].round(2)
    array([[[1.  , 0.  , 0.  ],
            [0.33, 0.67, 0.  ],
            [0.14, 0.29, 0.57]]])
    """
    H = check_array("distance_weights", "slopes", slopes, "(H,)")["H"]
    check_pairs("distance_weights", mask)
    if mask.ndim not in (2, 4) or mask.ndim == 4 and mask.shape[1] not in (1, H):
        raise ValueError(f"distance_weights: mask must have shape (T, S), (B, 1, T, S) or "
                         f"(B, H, T, S) with H={H}, but has shape {mask.shape}.")
    T, S = mask.shape[-2:]
    distance = np.abs(np.arange(T)[:, None] + (S - T) - np.arange(S))            # (T, S)
    distance = distance.astype(slopes.real.dtype)
    scores = -slopes[:, None, None] * distance                                   # (H, T, S)
    scores = np.broadcast_to(scores, (*mask.shape[:-3], H, T, S))
    p, saved_softmax = softmax(scores, mask=mask)

    saved = (distance, saved_softmax)
    return p, saved


def distance_weights_backward(dp, saved):
    r"""The gradient of `distance_weights`: far keys that deserve more weight lower the slope.

    .. math::

        \bar{z}_{hij} = p_{hij} \left( \bar{p}_{hij} - \textstyle\sum_l p_{hil} \bar{p}_{hil}
        \right), \qquad \bar{s}_h = -\sum_{i, j} d_{ij}\, \bar{z}_{hij}

    summed over the batch, too, where the mask has one.

    Returns
    -------
    dslopes : ndarray, shape (H,)
    """
    distance, saved_softmax = saved

    # p = softmax(scores, mask)
    dscores = softmax_backward(dp, saved_softmax)                     # (H, T, S) or (B, H, T, S)

    # scores = -slopes * distance
    dslopes = -(dscores * distance).sum(axis=(-2, -1))                # (H,) or (B, H)
    return dslopes if dslopes.ndim == 1 else dslopes.sum(axis=0)


def check_pairs(owner, mask):
    """Check a mask of queries and keys."""
    if not isinstance(mask, np.ndarray) or mask.dtype != bool:
        raise TypeError(f"{owner}: mask must be an array of bool, True = may attend, but is "
                        f"{type(mask).__name__}; use pattern.dense(T, S) of an AttentionPattern.")
    if mask.ndim < 2 or not mask.size:
        raise ValueError(f"{owner}: mask must have shape (..., T, S) with T and S of 1 or more, "
                         f"but has shape {mask.shape}.")
