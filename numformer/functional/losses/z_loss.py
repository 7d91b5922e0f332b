"""The z-loss: a penalty on the log-sum-exp of logits."""

import numpy as np

from numformer.checks import check_array


def z_loss(logits):
    r"""The mean square of the log-sum-exp, which keeps logits from drifting.

    A constant added to all logits changes no probability, so cross-entropy does not limit it.

    .. math:: L = \frac1N \sum_n \ell_n^2, \qquad \ell_n = \log \sum_v e^{z_{nv}}

    Parameters
    ----------
    logits : ndarray, shape (N, V)
        z.

    Returns
    -------
    loss : scalar of the dtype of `logits`
    saved : tuple
        For `z_loss_backward`.

    Raises
    ------
    ValueError, TypeError
        If `logits` is not an array of floats of that shape, or is empty.

    References
    ----------
    Chowdhery et al. (2022), "PaLM", section 5, with a weight of 1e-4.

    Examples
    --------
    >>> logits = np.log([[0.5, 0.5], [1.0, 1.0]])    # log-sum-exp: 0 and log 2
    >>> round(float(z_loss(logits)[0]), 3)
    0.24
    """
    check_array("z_loss", "logits", logits, "(N, V)")
    if logits.size == 0:
        raise ValueError(f"z_loss: logits of shape {logits.shape} are empty.")
    top = logits.real.max(axis=1, keepdims=True)    # a constant: it needs no derivative
    total = np.exp(logits - top).sum(axis=1, keepdims=True)          # (N, 1)
    lse = top + np.log(total)
    loss = (lse * lse).mean()

    saved = (logits, top, total, lse)
    return loss, saved


def z_loss_backward(dloss, saved):
    r"""The gradient of `z_loss`.

    .. math:: \bar{z}_n = \frac{2 \ell_n}{N}\, p_n \bar{L}, \qquad p_n = \mathrm{softmax}(z_n)

    Parameters
    ----------
    dloss : float

    Returns
    -------
    dlogits : ndarray, shape (N, V)
    """
    logits, top, total, lse = saved

    # loss = (lse * lse).mean()
    dlse = lse * (2 * float(dloss) / len(lse))

    # lse = top + log(total), total = sum(exp(logits - top)); its gradient is softmax(logits).
    # exp(logits - lse) is not: lse is rounded, to a multiple of 8 at 1e8 in float32
    return dlse * (np.exp(logits - top) / total)
