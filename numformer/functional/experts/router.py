"""The router of a mixture of experts: which experts serve a token, and with which weights.

The choice of experts has no gradient. The weights are a softmax, and through their gradient the
router learns.
"""

import numpy as np

from numformer.checks import check_array, check_ids, check_whole
from numformer.functional.softmax import softmax, softmax_backward


def top_k_experts(logits, k):
    r"""The k experts with the largest logits, the largest first.

    Of equal logits the expert with the lowest number comes first. NaN counts as largest, so that it
    reaches the output, as in a softmax, and is not silently dropped.

    Parameters
    ----------
    logits : ndarray, shape (N, E)
        The score of every expert for every token.
    k : int, at most E

    Returns
    -------
    chosen : ndarray of int64, shape (N, k)
        In 0 .. E-1, without repetition in a row.

    Raises
    ------
    ValueError, TypeError
        If the logits are not an array of floats of that shape or are empty, or k is not in 1 .. E.

    Examples
    --------
    >>> top_k_experts(np.array([[0.0, 3.0, 1.0, 3.0]]), k=3)
    array([[1, 3, 2]])
    """
    E = check_router("top_k_experts", logits)
    check_k("top_k_experts", "k", k, E)
    keys = np.where(np.isnan(logits), -np.inf, -logits.real)
    return np.argsort(keys, axis=1, kind="stable")[:, :k]           # (N, k)


def top_k_gates(logits, chosen):
    r"""The weights of the chosen experts: the softmax of their logits. They sum to 1.

    .. math:: w_{nj} = \frac{e^{z_{n c_{nj}}}}{\sum_{i} e^{z_{n c_{ni}}}}

    A softmax over all experts, renormalized over the chosen ones, gives the same. With k = 1 the
    weight is always 1, so the router has no gradient; use `top_k_gates_over_all`.

    Parameters
    ----------
    logits : ndarray, shape (N, E)
        z.
    chosen : ndarray of int, shape (N, k)
        c, from `top_k_experts`.

    Returns
    -------
    weights : ndarray, shape (N, k)
    saved : tuple
        For `top_k_gates_backward`.

    Raises
    ------
    ValueError, TypeError
        If the logits are not an array of floats of that shape, or an expert does not exist.

    References
    ----------
    Jiang et al. (2024), "Mixtral of Experts", section 2.1; Shazeer et al. (2017), "Outrageously
    Large Neural Networks", eq. 3 and 5, without its noise.

    Examples
    --------
    >>> top_k_gates(np.log([[1.0, 3.0, 4.0]]), np.array([[2, 0]]))[0]
    array([[0.8, 0.2]])
    """
    check_chosen("top_k_gates", logits, chosen)
    scores = np.take_along_axis(logits, chosen, axis=1)             # (N, k)
    weights, saved_softmax = softmax(scores)

    saved = (chosen, logits.shape, saved_softmax)
    return weights, saved


def top_k_gates_backward(dweights, saved):
    r"""The gradient of `top_k_gates`: 0 for the logits that were not chosen.

    .. math:: \bar{z}_{n c_{nj}}
              = w_{nj} \left( \bar{w}_{nj} - \textstyle\sum_i w_{ni} \bar{w}_{ni} \right)

    Returns
    -------
    dlogits : ndarray, shape (N, E)
    """
    chosen, shape, saved_softmax = saved

    # weights = softmax(scores)
    dscores = softmax_backward(dweights, saved_softmax)

    # scores = logits[chosen]
    return _where_chosen(dscores, chosen, shape)


def top_k_gates_over_all(logits, chosen):
    r"""The weights of the chosen experts in a softmax over all. They sum to less than 1.

    .. math:: w_{nj} = \frac{e^{z_{n c_{nj}}}}{\sum_{e} e^{z_{ne}}}

    Parameters
    ----------
    logits : ndarray, shape (N, E)
        z.
    chosen : ndarray of int, shape (N, k)
        c, from `top_k_experts`.

    Returns
    -------
    weights : ndarray, shape (N, k)
    saved : tuple
        For `top_k_gates_over_all_backward`.

    Raises
    ------
    ValueError, TypeError
        If the logits are not an array of floats of that shape, or an expert does not exist.

    References
    ----------
    Fedus et al. (2022), "Switch Transformers", eq. 1 and 2.

    Examples
    --------
    >>> top_k_gates_over_all(np.log([[1.0, 3.0, 4.0]]), np.array([[2, 0]]))[0]
    array([[0.5  , 0.125]])
    """
    check_chosen("top_k_gates_over_all", logits, chosen)
    p, saved_softmax = softmax(logits)                               # (N, E)
    weights = np.take_along_axis(p, chosen, axis=1)                 # (N, k)

    saved = (chosen, logits.shape, saved_softmax)
    return weights, saved


def top_k_gates_over_all_backward(dweights, saved):
    r"""The gradient of `top_k_gates_over_all`: all logits have one, because all are in the sum.

    .. math:: \bar{z}_n
              = p_n \left( \bar{p}_n - \textstyle\sum_j w_{nj} \bar{w}_{nj} \right), \qquad
              \bar{p}_{n c_{nj}} = \bar{w}_{nj}

    Returns
    -------
    dlogits : ndarray, shape (N, E)
    """
    chosen, shape, saved_softmax = saved

    # weights = p[chosen]
    dp = _where_chosen(dweights, chosen, shape)

    # p = softmax(logits)
    return softmax_backward(dp, saved_softmax)


def check_k(owner, name, k, E):
    """Check how many experts a token goes to."""
    check_whole(owner, name, k)
    if k > E:
        raise ValueError(f"{owner}: {name}={k} experts for a token are more than the E={E} that "
                         f"there are; use {name}={E} or fewer, or more experts.")


def check_router(owner, logits):
    """Check the logits of a router, and return E."""
    E = check_array(owner, "logits", logits, "(N, E)")["E"]
    if logits.size == 0:
        raise ValueError(f"{owner}: logits of shape {logits.shape} are empty; give at least one "
                         "token and one expert.")
    return E


def check_chosen(owner, logits, chosen):
    """Check the logits and the chosen experts, and return E."""
    E = check_router(owner, logits)
    check_ids(owner, "chosen", chosen, E)
    if chosen.ndim != 2 or len(chosen) != len(logits):
        raise ValueError(f"{owner}: chosen must have shape (N, k) with N={len(logits)}, but has "
                         f"shape {chosen.shape}; use top_k_experts(logits, k).")
    if chosen.shape[1] > 1 and (np.diff(np.sort(chosen, axis=1), axis=1) == 0).any():
        raise ValueError(f"{owner}: chosen must not hold an expert twice for a token; use "
                         "top_k_experts(logits, k).")
    return E


def _where_chosen(values, chosen, shape):
    """(N, k) to (N, E), with 0 for the experts that were not chosen."""
    y = np.zeros(shape, values.dtype)
    np.put_along_axis(y, chosen, values, axis=1)
    return y
