"""The loss of classifiers and language models: cross-entropy, and then with its usual options.

Read `minimal.cross_entropy` first: the plain loss of every token and its gradient. The first pair
here is the same for any shape; the second leaves out ignored targets and adds two terms, each of
which is a module of its own: label smoothing keeps a model from being too sure of its training
targets, z-loss keeps logits from drifting to numbers that are too large for a softmax.
"""

import numpy as np

from numformer.checks import check_array, check_ids, check_number
from numformer.functional.losses.uniform_cross_entropy import (
    uniform_cross_entropy, uniform_cross_entropy_backward)
from numformer.functional.losses.z_loss import z_loss as squared_log_sum_exp
from numformer.functional.losses.z_loss import z_loss_backward
from numformer.functional.softmax import log_softmax

IGNORE_INDEX = -100                                 # a target that does not count; PyTorch's number


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
    loss : scalar of the dtype of `logits`
        In nats, as the logarithm is the natural one; a mean over the targets.
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
    # z - max z - log sum exp(z - max z): no exponential overflows
    log_p, _ = log_softmax(logits)                   # (..., V)
    loss = negative_log_likelihood(log_p, targets)

    saved = (log_p, targets)
    return loss, saved


def softmax_cross_entropy_backward(dloss, saved):
    r"""The gradient of `softmax_cross_entropy`: prediction minus target.

    The loss of one target is a log-sum-exp less one logit, and the derivative of the log-sum-exp
    is the softmax:

    .. math::

        -\log p_{t y_t} = \log \sum_k e^{z_{tk}} - z_{t y_t}, \qquad
        \frac{\partial}{\partial z_{tj}} \log \sum_k e^{z_{tk}}
        = \frac{e^{z_{tj}}}{\sum_k e^{z_{tk}}} = p_{tj}

    .. math:: \bar{z}_t = \frac{\bar{L}}{n} \left( p_t - \mathrm{onehot}(y_t) \right)

    A bar is the gradient of the loss, here dlogits and dloss.

    Parameters
    ----------
    dloss : float
        The gradient with respect to the loss; 1 where the loss is the end.

    Returns
    -------
    dlogits : ndarray, shape (..., V)
    """
    log_p, targets = saved

    # loss = negative_log_likelihood(log_softmax(logits), targets): p, and p - 1 at the target
    dlogits = np.exp(log_p)
    p_target = np.take_along_axis(dlogits, targets[..., None], axis=-1)          # (..., 1)
    np.put_along_axis(dlogits, targets[..., None], p_target - 1, axis=-1)
    return dlogits * float(dloss / targets.size)


def negative_log_likelihood(log_p, targets):
    """The mean of -log p of the targets, from log p of all classes, (..., V)."""
    log_likelihood = np.take_along_axis(log_p, targets[..., None], axis=-1)      # (..., 1)
    return -log_likelihood.sum() / targets.size


def cross_entropy(logits, targets, ignore_index=IGNORE_INDEX, label_smoothing=0.0, z_loss=0.0):
    r"""Mean cross-entropy of the targets that count, with label smoothing and z-loss.

    .. math::

        L = (1 - \epsilon)\, L_\mathrm{targets} + \epsilon\, L_\mathrm{uniform}
            + \zeta\, L_\mathrm{z}

    The three are means over the n targets that are not ignored: of -log p of the target, of the
    mean of -log p over all V classes, and of the squared log-sum-exp of the logits:

    .. math::

        L_\mathrm{targets} = -\frac{1}{n} \sum_t \log p_{t y_t}, \qquad
        L_\mathrm{uniform} = -\frac{1}{nV} \sum_{tk} \log p_{tk}, \qquad
        L_\mathrm{z} = \frac{1}{n} \sum_t \Big( \log \sum_k e^{z_{tk}} \Big)^2

    Parameters
    ----------
    logits : ndarray, shape (..., V)
        Unnormalized log-probabilities.
    targets : ndarray of int, shape (...)
        In 0 .. V-1, or `ignore_index`.
    ignore_index : int
        Positions with this target count neither in the sums nor in the number of targets.
    label_smoothing : float in [0, 1)
        epsilon: the probability mass of the target that is spread over all classes.
    z_loss : float, at least 0
        zeta: the weight of the z-loss.

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

    Notes
    -----
    Supervised fine-tuning on answers is this loss: the tokens of prompts and the padding are
    ignored, and the EOS that ends an answer is a target like any other.

    References
    ----------
    Label smoothing: Szegedy et al. (2016), "Rethinking the Inception Architecture", section 7.
    z-loss: Chowdhery et al. (2022), "PaLM", section 5.

    Examples
    --------
    >>> logits = np.log([[0.5, 0.5], [0.25, 0.75]])
    >>> round(float(cross_entropy(logits, np.array([0, IGNORE_INDEX]))[0]), 3)         # ln 2
    0.693
    """
    check_cross_entropy(logits, targets, ignore_index, label_smoothing, z_loss)
    counts = targets != ignore_index                                 # (...), bool
    smoothing, zeta = float(label_smoothing), float(z_loss)
    counted, targets = logits[counts], targets[counts]               # (n, V), (n,): these count
    saved_uniform = saved_z = None

    log_p, _ = log_softmax(counted)                                  # (n, V)
    loss = negative_log_likelihood(log_p, targets)
    if smoothing:
        uniform, saved_uniform = uniform_cross_entropy(counted)
        loss = (1 - smoothing) * loss + smoothing * uniform
    if zeta:
        penalty, saved_z = squared_log_sum_exp(counted)
        loss = loss + zeta * penalty

    saved = (counts, smoothing, zeta, (log_p, targets), saved_uniform, saved_z)
    return loss, saved


def cross_entropy_backward(dloss, saved):
    r"""The gradient of `cross_entropy`: the sum of those of its terms.

    .. math::

        \bar{z}_t = \frac{\bar{L}}{n} \left[ p_t - q_t + 2 \zeta\, \ell_t\, p_t \right], \qquad
        q_t = (1 - \epsilon)\, \mathrm{onehot}(y_t) + \epsilon / V

    with the prediction :math:`p_t = \mathrm{softmax}(z_t)` and its log-sum-exp :math:`\ell_t`. The
    first two terms are :math:`(1 - \epsilon) (p_t - \mathrm{onehot}(y_t)) + \epsilon (p_t - 1/V)`;
    the third is the derivative of the square, as that of :math:`\ell_t` is :math:`p_t`.

    Parameters
    ----------
    dloss : float
        The gradient with respect to the loss; 1 where the loss is the end.

    Returns
    -------
    dlogits : ndarray, shape (..., V)
        Exactly 0 where the target is ignored.
    """
    counts, smoothing, zeta, saved_targets, saved_uniform, saved_z = saved

    # loss = (1 - smoothing) * softmax_cross_entropy(counted, targets)
    dcounted = softmax_cross_entropy_backward((1 - smoothing) * dloss, saved_targets)    # (n, V)

    # loss = loss + smoothing * uniform_cross_entropy(counted)
    if smoothing:
        dcounted += uniform_cross_entropy_backward(smoothing * dloss, saved_uniform)

    # loss = loss + zeta * z_loss(counted)
    if zeta:
        dcounted += z_loss_backward(zeta * dloss, saved_z)

    # counted = logits[counts]
    dlogits = np.zeros((*counts.shape, dcounted.shape[-1]), dcounted.dtype)
    dlogits[counts] = dcounted
    return dlogits


def check_cross_entropy(logits, targets, ignore_index, label_smoothing, z_loss):
    """Check the arguments of `cross_entropy`, and return how many targets count."""
    check_array("cross_entropy", "logits", logits, "(..., V)")
    check_ids("cross_entropy", "targets", targets, logits.shape[-1], ignore_index)
    check_number("cross_entropy", "label_smoothing", label_smoothing, least=0, below=1)
    check_number("cross_entropy", "z_loss", z_loss, least=0)
    check_targets("cross_entropy", logits, targets)
    n = int((targets != ignore_index).sum())
    if n == 0:
        raise ValueError(f"cross_entropy: every target is ignore_index={ignore_index}; leave such "
                         "a batch out.")
    return n


def check_targets(owner, logits, targets, name="targets"):
    """Check that there is one target for every vector of logits; `name` is what they are called."""
    if targets.shape != logits.shape[:-1]:
        raise ValueError(f"{owner}: logits of shape {logits.shape} need {name} of shape "
                         f"{logits.shape[:-1]}, but they have {targets.shape}.")
