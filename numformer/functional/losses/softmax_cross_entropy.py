"""The cross-entropy of a softmax: with the target classes, and with the uniform distribution."""

import numpy as np

from numformer.checks import check_array, check_ids
from numformer.functional.softmax import log_softmax


def softmax_cross_entropy(logits, targets):
    r"""The mean negative log-probability of the targets: what a language model minimizes.

    .. math:: L = - \frac{1}{n} \sum_t \log p_{t y_t}, \qquad p_t = \mathrm{softmax}(z_t)

    Parameters
    ----------
    logits : ndarray, shape (..., V)
        z, unnormalized log-probabilities.
    targets : ndarray of int, shape (...)
        y, in 0 .. V-1.

    Returns
    -------
    loss : scalar of the dtype of `logits`, nats a target
    saved : tuple
        For `softmax_cross_entropy_backward`.

    Raises
    ------
    ValueError, TypeError
        If shapes differ, targets are not integers in that range, or there are none.

    See Also
    --------
    cross_entropy : with ignored targets, label smoothing and z-loss.

    Examples
    --------
    >>> loss, _ = softmax_cross_entropy(np.zeros((2, 65)), np.array([3, 64]))
    >>> round(float(loss), 3)                        # guessing among 65: ln 65
    4.174
    """
    check_array("softmax_cross_entropy", "logits", logits, "(..., V)")
    check_ids("softmax_cross_entropy", "targets", targets, logits.shape[-1])
    check_targets("softmax_cross_entropy", logits, targets)
    log_p, _ = log_softmax(logits)                                   # (..., V)
    log_likelihood = np.take_along_axis(log_p, targets[..., None], axis=-1)   # (..., 1)
    loss = -log_likelihood.sum() / targets.size

    saved = (log_p, targets)
    return loss, saved


def softmax_cross_entropy_backward(dloss, saved):
    r"""The gradient of `softmax_cross_entropy`: prediction minus target.

    .. math:: \bar{z}_t = \frac{\bar{L}}{n} \left( p_t - \mathrm{onehot}(y_t) \right)

    Parameters
    ----------
    dloss : float
        The gradient with respect to the loss; 1 where the loss is the end.

    Returns
    -------
    dlogits : ndarray, shape (..., V)
    """
    log_p, targets = saved

    # loss = -log_p[targets].sum() / n, with log_p = log_softmax(logits)
    dlogits = np.exp(log_p)
    of_targets = np.take_along_axis(dlogits, targets[..., None], axis=-1)
    np.put_along_axis(dlogits, targets[..., None], of_targets - 1, axis=-1)
    return dlogits * float(dloss / targets.size)


def uniform_cross_entropy(logits):
    r"""The cross-entropy with the uniform distribution: what label smoothing adds to the loss.

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


def check_targets(owner, logits, targets):
    """Check that there is one target for every vector of logits."""
    if targets.shape != logits.shape[:-1]:
        raise ValueError(f"{owner}: logits of shape {logits.shape} need targets of shape "
                         f"{logits.shape[:-1]}, but they have {targets.shape}.")
