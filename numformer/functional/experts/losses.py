"""Auxiliary losses of a router: all experts should be used, and its logits should stay small."""

import numpy as np

from numformer.functional.experts.router import check_chosen, check_router
from numformer.functional.losses.z_loss import z_loss, z_loss_backward
from numformer.functional.softmax import softmax, softmax_backward


def load_balance_loss(logits, chosen):
    r"""How unevenly the experts are used: 1 where all are used equally, E where only one is used.

    .. math::

        L = E \sum_e f_e P_e, \qquad f_e = \frac{1}{N k} \sum_{n,j} [c_{nj} = e], \qquad
        P_e = \frac1N \sum_n p_{ne}, \qquad p_n = \mathrm{softmax}(z_n)

    f, the fraction of all choices that fall on an expert, is a count and has no gradient. P, its
    mean probability, has one. So the loss lowers the probability of an expert in proportion to its
    use.

    Parameters
    ----------
    logits : ndarray, shape (N, E)
        z. All N tokens make one statistic.
    chosen : ndarray of int, shape (N, k)
        c, from `top_k_experts`.

    Returns
    -------
    loss : scalar of the dtype of `logits`
    saved : tuple
        For `load_balance_loss_backward`.

    Raises
    ------
    ValueError, TypeError
        If the logits are not an array of floats of that shape, or an expert does not exist.

    References
    ----------
    Fedus et al. (2022), "Switch Transformers", eq. 4 to 6, without its factor alpha. There k = 1;
    for larger k some code counts choices per token, which makes the loss k times as large.

    Examples
    --------
    >>> from numformer.functional import top_k_experts
    >>> even, uneven = np.array([[0.0, 9.0], [9.0, 0.0]]), np.array([[0.0, 9.0], [0.0, 9.0]])
    >>> losses = [load_balance_loss(z, top_k_experts(z, k=1))[0] for z in (even, uneven)]
    >>> [round(float(loss), 3) for loss in losses]
    [1.0, 2.0]
    """
    E = check_chosen("load_balance_loss", logits, chosen)
    p, saved_softmax = softmax(logits)                               # (N, E)
    used = np.bincount(chosen.reshape(-1), minlength=E) / chosen.size         # (E,)
    used = used.astype(logits.real.dtype)
    loss = E * (used * p.mean(axis=0)).sum()

    saved = (used, saved_softmax)
    return loss, saved


def load_balance_loss_backward(dloss, saved):
    r"""The gradient of `load_balance_loss`, through the probabilities only.

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
    r"""`z_loss` of the router's logits: the mean square of their log-sum-exp.

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
        If the logits are not an array of floats of that shape, or are empty.

    References
    ----------
    Zoph et al. (2022), "ST-MoE: Designing Stable and Transferable Sparse Expert Models", eq. 5.

    Examples
    --------
    >>> logits = np.log([[0.5, 0.5], [1.0, 1.0]])    # log-sum-exp: 0 and log 2
    >>> round(float(router_z_loss(logits)[0]), 3)
    0.24
    """
    check_router("router_z_loss", logits)
    return z_loss(logits)


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
    return z_loss_backward(dloss, saved)
