"""What a router is asked for beside the task: that all experts are used, and that its logits stay small."""

import numpy as np

from numformer.functional.router import check_chosen, check_router
from numformer.functional.softmax import softmax, softmax_backward


def load_balance_loss(logits, chosen):
    r"""How unevenly the experts are used: 1 where all are used alike, up to E where one does everything.

    .. math::

        L = E \sum_e f_e P_e, \qquad f_e = \frac{1}{N k} \sum_{n,j} [c_{nj} = e], \qquad
        P_e = \frac1N \sum_n p_{ne}, \qquad p_n = \mathrm{softmax}(z_n)

    f, the share of all choices that fell on an expert, is a count and has no gradient; P, the share that the router meant for it,
    stands beside it and has one. An expert used too often is so made less probable, and the more so the more it is used.

    Parameters
    ----------
    logits : ndarray, shape (N, E)
        z. All N tokens make one statistic.
    chosen : ndarray of int, shape (N, k)
        c, as `top_k_experts` gives them.

    Returns
    -------
    loss : scalar of the dtype of `logits`
    saved : tuple
        For `load_balance_loss_backward`.

    Raises
    ------
    ValueError, TypeError
        If the logits are no array of floats of that shape, or an expert is not there.

    References
    ----------
    Fedus et al. (2022), "Switch Transformers", eq. 4 to 6, without its factor alpha. There k = 1; for larger k some code counts
    choices per token instead, which makes the loss k times as large.

    Examples
    --------
    >>> from numformer.functional import top_k_experts
    >>> even, one_for_all = np.array([[0.0, 9.0], [9.0, 0.0]]), np.array([[0.0, 9.0], [0.0, 9.0]])
    >>> [round(float(load_balance_loss(z, top_k_experts(z, k=1))[0]), 3) for z in (even, one_for_all)]
    [1.0, 2.0]
    """
    E = check_chosen("load_balance_loss", logits, chosen)
    p, saved_softmax = softmax(logits)                                # (N, E)
    used = np.bincount(chosen.reshape(-1), minlength=E) / chosen.size         # (E,)
    used = used.astype(logits.real.dtype)
    loss = E * (used * p.mean(axis=0)).sum()

    saved = (used, saved_softmax)
    return loss, saved


def load_balance_loss_backward(dloss, saved):
    r"""The gradient of `load_balance_loss`, through the probabilities alone.

    .. math:: \bar{p}_{ne} = \frac{E}{N} f_e \bar{L}, \qquad
              \bar{z}_n = p_n \left( \bar{p}_n - \textstyle\sum_e p_{ne} \bar{p}_{ne} \right)

    Parameters
    ----------
    dloss : float

    Returns
    -------
    dlogits : ndarray, shape (N, E)
    """
    used, saved_softmax = saved
    N, E = saved_softmax[0].shape

    # loss = E * (used * p.mean(axis=0)).sum()
    dp = np.broadcast_to(used * (E * float(dloss) / N), (N, E))

    # p = softmax(logits)
    return softmax_backward(dp, saved_softmax)


def router_z_loss(logits):
    r"""How far the router's logits have drifted: the mean square of their log-sum-exp, which small logits keep small.

    .. math:: L = \frac1N \sum_n \ell_n^2, \qquad \ell_n = \log \sum_e e^{z_{ne}}

    Parameters
    ----------
    logits : ndarray, shape (N, E)
        z.

    Returns
    -------
    loss : scalar of the dtype of `logits`
    saved : tuple
        For `router_z_loss_backward`.

    Raises
    ------
    ValueError, TypeError
        If the logits are no array of floats of that shape, or are empty.

    References
    ----------
    Zoph et al. (2022), "ST-MoE: Designing Stable and Transferable Sparse Expert Models", eq. 5.

    Examples
    --------
    >>> round(float(router_z_loss(np.log([[0.5, 0.5], [1.0, 1.0]]))[0]), 3)     # logarithms of the sums: 0 and log 2
    0.24
    """
    check_router("router_z_loss", logits)
    top = logits.real.max(axis=-1, keepdims=True)                     # a constant: it needs no derivative
    lse = top + np.log(np.exp(logits - top).sum(axis=-1, keepdims=True))      # (N, 1)
    loss = (lse * lse).mean()

    saved = (logits, lse)
    return loss, saved


def router_z_loss_backward(dloss, saved):
    r"""The gradient of `router_z_loss`.

    .. math:: \bar{z}_n = \frac{2 \ell_n}{N}\, p_n \bar{L}, \qquad p_n = \mathrm{softmax}(z_n)

    Parameters
    ----------
    dloss : float

    Returns
    -------
    dlogits : ndarray, shape (N, E)
    """
    logits, lse = saved

    # loss = (lse * lse).mean()
    dlse = lse * (2 * float(dloss) / len(lse))

    # lse = log(sum(exp(logits))), whose gradient is softmax(logits)
    return dlse * np.exp(logits - lse)
