"""Preference losses: a policy learns from pairs of answers, of which one was chosen."""

import numpy as np

from numformer.checks import check_array, check_number
from numformer.functional.activations.sigmoid import sigmoid


def dpo_loss(chosen, rejected, reference_chosen, reference_rejected, beta=0.1, label_smoothing=0.0,
             likelihood=0.0):
    r"""Direct preference optimization: make the chosen answer more likely than the rejected one.

    .. math::

        h_n = \beta \left[ (w_n - w^\mathrm{ref}_n) - (l_n - l^\mathrm{ref}_n) \right], \qquad
        L = \frac{1}{N} \sum_n \left[ -(1 - \epsilon) \log \sigma(h_n)
            - \epsilon \log \sigma(-h_n) - \lambda w_n \right]

    where w and l are the log-probabilities of whole answers: sums of `token_log_probs`.

    Where it comes from: Bradley and Terry's model says that w is preferred to l with probability
    :math:`\sigma(r_w - r_l)`, for rewards r. The policy that maximizes the expected reward minus
    :math:`\beta` times its KL divergence from the reference is
    :math:`\pi \propto \pi^\mathrm{ref} e^{r / \beta}`, so
    :math:`r = \beta \log(\pi / \pi^\mathrm{ref}) + c`, where c is the same for all answers to a
    prompt. In the difference of rewards c cancels, and h is left.

    h does not change if both answers become less likely by one factor, and in training both do; the
    term with :math:`\lambda` holds the chosen one.

    Parameters
    ----------
    chosen, rejected : ndarray, shape (N,)
        w and l, of the policy, in nats.
    reference_chosen, reference_rejected : ndarray, shape (N,)
        Of the reference, usually the policy as it was at first: constants, rounded to the precision
        of the policy.
    beta : float above 0
        How much a log-ratio to the reference counts: a small one lets the policy move far.
    label_smoothing : float in [0, 0.5)
        epsilon, the share of pairs in which the choice is taken to be wrong.
    likelihood : float, at least 0
        lambda.

    Returns
    -------
    loss : scalar of the dtype of `chosen`
        A mean over the pairs.
    saved : tuple
        For `dpo_loss_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not vectors of floats of one length, there is no pair, or a number is out
        of its range.

    References
    ----------
    Rafailov et al. (2023), "Direct Preference Optimization", eq. 7. Label smoothing: Mitchell
    (2023), "A note on DPO with noisy preferences". The likelihood term: Pang et al. (2024),
    "Iterative Reasoning Preference Optimization", eq. 1, who divide w by the length of the answer.

    Examples
    --------
    >>> w, l = np.array([-3.0]), np.array([-5.0])
    >>> round(float(dpo_loss(w, l, w, l)[0]), 3)                      # as the reference: ln 2
    0.693
    >>> bool(dpo_loss(w + 1, l, w, l)[0] < np.log(2))
    True
    """
    owner = "dpo_loss"
    N = check_array(owner, "chosen", chosen, "(N)")["N"]
    check_array(owner, "rejected", rejected, "(N)", chosen.dtype, N=N)
    check_array(owner, "reference_chosen", reference_chosen, "(N)", N=N)
    check_array(owner, "reference_rejected", reference_rejected, "(N)", N=N)
    check_number(owner, "beta", beta, above=0)
    check_number(owner, "label_smoothing", label_smoothing, least=0, below=0.5)
    check_number(owner, "likelihood", likelihood, least=0)
    if not N:
        raise ValueError(f"{owner}: chosen is empty; give at least one pair.")
    beta, smoothing, likelihood = float(beta), float(label_smoothing), float(likelihood)
    reference_chosen, reference_rejected = (
        x.astype(chosen.real.dtype) for x in (reference_chosen, reference_rejected))
    h = beta * ((chosen - reference_chosen) - (rejected - reference_rejected))        # (N,)
    losses = (1 - smoothing) * _softplus(-h) + smoothing * _softplus(h)
    loss = (losses - likelihood * chosen).sum() / N

    saved = (h, beta, smoothing, likelihood)
    return loss, saved


def dpo_loss_backward(dloss, saved):
    r"""The gradients of `dpo_loss`: the chosen answer is pushed up, the rejected one down.

    The derivative of :math:`-\log \sigma(h)` is :math:`-\sigma(-h)`: nearly 0 for a pair that the
    policy orders as it should, -1 for one that it orders the other way.

    .. math::

        \bar{h}_n = \frac{\bar{L}}{N} \left[ \epsilon\, \sigma(h_n)
                    - (1 - \epsilon)\, \sigma(-h_n) \right], \qquad
        \bar{w}_n = \beta \bar{h}_n - \frac{\lambda}{N} \bar{L}, \qquad
        \bar{l}_n = -\beta \bar{h}_n

    The reference is constant.

    Parameters
    ----------
    dloss : float

    Returns
    -------
    dchosen, drejected : ndarray, shape (N,)
    """
    h, beta, smoothing, likelihood = saved
    dmean = float(dloss) / len(h)

    # loss = mean of (1 - smoothing) softplus(-h) + smoothing softplus(h) - likelihood chosen
    dh = dmean * (smoothing * sigmoid(h)[0] - (1 - smoothing) * sigmoid(-h)[0])           # (N,)

    # h = beta * ((chosen - reference_chosen) - (rejected - reference_rejected))
    return beta * dh - dmean * likelihood, -beta * dh


def _softplus(x):
    """-log sigma(-x) = log(1 + e^x), without overflow."""
    positive = np.where(x.real > 0, x, 0)
    return positive + np.log1p(np.exp(x - 2 * positive))              # x - 2 max(x, 0) = -|x|
