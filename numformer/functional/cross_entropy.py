"""The loss of every classifier and language model: minus the logarithm of what the truth was given."""

import numpy as np

from numformer.checks import check_array, check_ids, check_number
from numformer.functional.softmax import log_softmax

IGNORE_INDEX = -100                                                   # a target that does not count; the field's usual number


def cross_entropy(logits, targets, ignore_index=IGNORE_INDEX, label_smoothing=0.0, z_loss=0.0):
    r"""Mean surprise, in nats, at the true classes.

    .. math::

        L = \frac{1}{n} \sum_{t} \left[ - \textstyle\sum_v q_{tv} \log p_{tv} + \zeta\, \ell_t^2 \right], \qquad
        \ell_t = \log \sum_v e^{z_{tv}}, \qquad p_t = e^{z_t - \ell_t}, \qquad
        q_t = (1 - \epsilon)\, \mathrm{onehot}(y_t) + \epsilon / V

    where the sum runs over the `n` targets that are not ignored.

    Parameters
    ----------
    logits : ndarray, shape (..., V)
        z, unnormalized log-probabilities.
    targets : ndarray of int, shape (...)
        y, in 0 .. V-1, or `ignore_index`.
    ignore_index : int
        A target with this number counts neither in the sum nor in `n`.
    label_smoothing : float in [0, 1)
        epsilon: how much of the truth is spread over all classes.
    z_loss : float, at least 0
        zeta: pulls the log-sum-exp towards 0, so that logits do not drift.

    Returns
    -------
    loss : scalar of the dtype of `logits`, nats a target
    saved : tuple
        For `cross_entropy_backward`.

    Raises
    ------
    ValueError
        If shapes differ, an id is out of range, or no target counts.
    TypeError
        If targets are not integers.

    References
    ----------
    Label smoothing: Szegedy et al. (2016), "Rethinking the Inception Architecture", section 7.
    z-loss: Chowdhery et al. (2022), "PaLM", section 5.

    Examples
    --------
    >>> loss, _ = cross_entropy(np.zeros((2, 65)), np.array([3, 64]))
    >>> round(float(loss), 3)                                         # guessing among 65: ln 65
    4.174
    """
    n = check_cross_entropy(logits, targets, ignore_index, label_smoothing, z_loss)
    counts = targets != ignore_index                                  # (...,)
    label_smoothing, z_loss = float(label_smoothing), float(z_loss)
    rows = np.where(counts, targets, 0)[..., None]                    # any valid class: the row is masked below

    log_p, _ = log_softmax(logits)                                    # (..., V)
    expected = (1 - label_smoothing) * np.take_along_axis(log_p, rows, axis=-1)       # (..., 1)
    if label_smoothing:
        expected = expected + label_smoothing * log_p.mean(axis=-1, keepdims=True)
    lse = np.take_along_axis(logits - log_p, rows, axis=-1) if z_loss else 0.0        # log p = z - lse, in every column
    losses = z_loss * lse * lse - expected
    loss = np.where(counts[..., None], losses, 0).sum() / n

    saved = (log_p, lse, rows, counts, n, label_smoothing, z_loss)
    return loss, saved


def cross_entropy_backward(dloss, saved):
    r"""The gradient of `cross_entropy`: what was predicted minus what was true.

    .. math:: \bar{z}_t = \frac{\bar{L}}{n} \left[ p_t - q_t + 2 \zeta\, \ell_t\, p_t \right], \qquad p_t = \mathrm{softmax}(z_t)

    Parameters
    ----------
    dloss : float
        The gradient of what comes after the loss: 1 where the loss is the end.

    Returns
    -------
    dlogits : ndarray, shape (..., V)
        Exactly 0 in the rows that are ignored.
    """
    log_p, lse, rows, counts, n, label_smoothing, z_loss = saved
    p = np.exp(log_p)

    # expected = (1 - label_smoothing) * log_p[rows] + label_smoothing * mean(log_p), and losses = ... - expected
    dlog_p = np.full_like(p, -label_smoothing / p.shape[-1])
    np.put_along_axis(dlog_p, rows, -(1 - label_smoothing) - label_smoothing / p.shape[-1], axis=-1)

    # log_p = log_softmax(logits), whose gradient is dlog_p - p * sum(dlog_p), and the sum is -1
    dlogits = dlog_p + p

    # losses = z_loss * lse * lse - ..., and the gradient of lse is p
    if z_loss:
        dlogits += 2 * z_loss * lse * p

    # loss = where(counts, losses, 0).sum() / n
    return np.where(counts[..., None], dlogits * float(dloss / n), 0)


def check_cross_entropy(logits, targets, ignore_index, label_smoothing, z_loss):
    """Check the arguments of `cross_entropy`, and return how many targets count."""
    check_array("cross_entropy", "logits", logits, "(..., V)")
    check_ids("cross_entropy", "targets", targets, logits.shape[-1], ignore_index)
    check_number("cross_entropy", "label_smoothing", label_smoothing, least=0, below=1)
    check_number("cross_entropy", "z_loss", z_loss, least=0)
    if targets.shape != logits.shape[:-1]:
        raise ValueError(f"cross_entropy: logits of shape {logits.shape} need targets of shape {logits.shape[:-1]}, "
                         f"but they have {targets.shape}.")
    n = int((targets != ignore_index).sum())
    if n == 0:
        raise ValueError(f"cross_entropy: every target is ignore_index={ignore_index}; leave such a batch out.")
    return n
