"""Modifiers: what happens to the scores between the product q k' and the softmax, each a pair.

The last of T queries is aligned with the last of S keys, so the distance from query i to key j is
j - (i + S - T).
"""

import numpy as np

from numformer.checks import check_array, check_number


def soft_cap(x, cap):
    r"""Squeeze numbers smoothly between -cap and cap; small ones hardly change.

    .. math:: y = c \tanh(x / c)

    Parameters
    ----------
    x : ndarray, any shape
    cap : float above 0
        c, in the unit of `x`.

    Returns
    -------
    y : ndarray, shape of `x`
    saved : tuple
        For `soft_cap_backward`.

    Raises
    ------
    ValueError, TypeError
        If `x` is no array of floats, or the cap is not above 0.

    References
    ----------
    Gemma Team (2024), "Gemma 2", section 2, "Logit soft-capping".

    Examples
    --------
    >>> soft_cap(np.array([1.0, 10.0, 1000.0]), 50.0)[0].round(3)
    array([ 1.   ,  9.869, 50.   ])
    """
    check_array("soft_cap", "x", x, "(...)")
    check_number("soft_cap", "cap", cap, above=0)
    cap = float(cap)
    y = cap * np.tanh(x / cap)

    saved = (y, cap)
    return y, saved


def soft_cap_backward(dy, saved):
    r"""The gradient of `soft_cap`.

    .. math:: \bar{x} = \bar{y} \left( 1 - (y / c)^2 \right)

    Returns
    -------
    dx : ndarray, shape of `dy`
    """
    y, cap = saved

    # y = cap * tanh(x / cap)
    t = y / cap
    return dy * (1 - t * t)


def alibi(scores, slopes):
    r"""ALiBi: subtract from every score a penalty proportional to the distance.

    .. math:: y_{hij} = z_{hij} - m_h\, |i + S - T - j|

    Parameters
    ----------
    scores : ndarray, shape (..., H, T, S)
    slopes : ndarray, shape (H,)
        m, as `alibi_slopes` gives it. Constants: they get no gradient.

    Returns
    -------
    y : ndarray, shape of `scores`
    saved : tuple
        For `alibi_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats, or differ in H.

    References
    ----------
    Press, Smith, Lewis (2022), "Train Short, Test Long", section 3.

    Examples
    --------
    >>> alibi(np.zeros((1, 2, 2)), np.array([0.5]))[0]
    array([[[ 0. , -0.5],
            [-0.5,  0. ]]])
    """
    H = check_array("alibi", "slopes", slopes, "(H,)")["H"]
    sizes = check_array("alibi", "scores", scores, "(..., H, T, S)", H=H)
    T, S = sizes["T"], sizes["S"]
    distance = np.abs(np.arange(T)[:, None] + (S - T) - np.arange(S))            # (T, S)
    real = scores.real.dtype
    y = scores - slopes.astype(real)[:, None, None] * distance.astype(real)      # (..., H, T, S)

    saved = ()
    return y, saved


def alibi_backward(dy, saved):
    r"""The gradient of `alibi`: a constant was subtracted, so it passes unchanged.

    .. math:: \bar{z} = \bar{y}

    Returns
    -------
    dscores : ndarray, shape of `dy`
    """
    # y = scores - slopes * distance
    return dy.copy()


def add_by_distance(scores, bias):
    r"""Add to every score the bias of its head and its distance.

    .. math:: y_{hij} = z_{hij} + \beta_{h,\, j - i + T - 1}

    There are only T + S - 1 distances, one for each diagonal of the T x S scores.

    Parameters
    ----------
    scores : ndarray, shape (..., H, T, S)
    bias : ndarray, shape (H, T + S - 1)
        :math:`\beta`, for the distances -(S - 1) .. T - 1, as `relative_position_bias` gives it.

    Returns
    -------
    y : ndarray, shape of `scores`
    saved : tuple
        For `add_by_distance_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one dtype, or do not fit.

    References
    ----------
    Raffel et al. (2020), "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
    Transformer", section 2.1.

    Examples
    --------
    >>> add_by_distance(np.zeros((1, 2, 3)), np.array([[-2.0, -1.0, 0.0, 1.0]]))[0]
    array([[[-1.,  0.,  1.],
            [-2., -1.,  0.]]])
    """
    sizes = check_array("add_by_distance", "scores", scores, "(..., H, T, S)")
    H, T, S = sizes["H"], sizes["T"], sizes["S"]
    check_array("add_by_distance", "bias", bias, "(H, R)", scores.dtype, H=H, R=T + S - 1)
    index = np.arange(S) - np.arange(T)[:, None] + (T - 1)           # (T, S)
    y = scores + bias[:, index]                                      # (..., H, T, S)

    saved = (T, S)
    return y, saved


def add_by_distance_backward(dy, saved):
    r"""The gradient of `add_by_distance`: a bias sums over its diagonal, and over the batch.

    .. math:: \bar{z} = \bar{y}, \qquad \bar{\beta}_{hr} = \sum_{i} \bar{y}_{h, i, r + i - T + 1}

    Returns
    -------
    dscores : ndarray, shape of `dy`
    dbias : ndarray, shape (H, T + S - 1)
    """
    T, S = saved

    # y = scores + bias[:, index]
    of_heads = dy.reshape(-1, *dy.shape[-3:]).sum(axis=0)            # (H, T, S)
    dbias = np.zeros((len(of_heads), T + S - 1), dy.dtype)
    for i in range(T):                                               # row i has S of the distances
        dbias[:, T - 1 - i:T - 1 - i + S] += of_heads[:, i]
    return dy.copy(), dbias


def modify_scores(scores, softcap=None, slopes=None, bias=None):
    """All modifiers that are given, in this order: soft cap, ALiBi, bias by distance.

    Parameters
    ----------
    scores : ndarray, shape (..., H, T, S)
    softcap, slopes, bias
        The second arguments of `soft_cap`, `alibi` and `add_by_distance`. None leaves one out.

    Returns
    -------
    y : ndarray, shape of `scores`
    saved : tuple
        For `modify_scores_backward`.
    """
    saved_cap = saved_bias = None
    if softcap is not None:
        scores, saved_cap = soft_cap(scores, softcap)
    if slopes is not None:
        scores, _ = alibi(scores, slopes)
    if bias is not None:
        scores, saved_bias = add_by_distance(scores, bias)

    saved = (saved_cap, saved_bias)
    return scores, saved


def modify_scores_backward(dy, saved):
    """The gradient of `modify_scores`: the same modifiers in reverse order.

    Returns
    -------
    dscores : ndarray, shape of `dy`
    dbias : ndarray, shape (H, T + S - 1), or None where there was no bias
    """
    saved_cap, saved_bias = saved
    dscores, dbias = dy, None

    # scores = add_by_distance(scores, bias)
    if saved_bias is not None:
        dscores, dbias = add_by_distance_backward(dscores, saved_bias)

    # scores = alibi(scores, slopes): the gradient passes unchanged

    # scores = soft_cap(scores, softcap)
    if saved_cap is not None:
        dscores = soft_cap_backward(dscores, saved_cap)
    return dscores, dbias
