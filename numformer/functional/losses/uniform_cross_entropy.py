"""The cross-entropy with the uniform distribution: what label smoothing adds to the loss."""

import numpy as np

from numformer.checks import check_array
from numformer.functional.softmax import log_softmax


def uniform_cross_entropy(logits):
    r"""The mean negative log-probability of all classes, which is least where all are equal.

    .. math:: L = - \frac{1}{n V} \sum_{t, v} \log p_{tv}, \qquad p_t = \mathrm{softmax}(z_t)

    Parameters
    ----------
    logits : ndarray, shape (..., V)
        z.

    Returns
    -------
    loss : scalar of the dtype of `logits`
        At least ln V, which it is where all logits of a vector are equal.
    saved : tuple
        For `uniform_cross_entropy_backward`.

    Raises
    ------
    ValueError, TypeError
        If `logits` is not an array of floats, or is empty.

    Examples
    --------
    >>> loss, _ = uniform_cross_entropy(np.zeros((2, 65)))
    >>> round(float(loss), 3)
    4.174
    """
    check_array("uniform_cross_entropy", "logits", logits, "(..., V)")
    if logits.size == 0:
        raise ValueError(f"uniform_cross_entropy: logits of shape {logits.shape} are empty.")
    log_p, _ = log_softmax(logits)                                   # (..., V)
    n = log_p.size // log_p.shape[-1]
    loss = -log_p.mean(axis=-1).sum() / n

    saved = (log_p,)
    return loss, saved


def uniform_cross_entropy_backward(dloss, saved):
    r"""The gradient of `uniform_cross_entropy`: prediction minus uniform distribution.

    .. math:: \bar{z}_t = \frac{\bar{L}}{n} \left( p_t - \tfrac1V \right)

    Parameters
    ----------
    dloss : float

    Returns
    -------
    dlogits : ndarray, shape (..., V)
    """
    log_p, = saved
    V = log_p.shape[-1]
    n = log_p.size // V

    # loss = -log_p.mean(axis=-1).sum() / n, with log_p = log_softmax(logits)
    return (np.exp(log_p) - 1 / V) * float(dloss / n)
