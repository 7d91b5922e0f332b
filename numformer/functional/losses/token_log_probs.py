"""Log-probabilities of given tokens: what losses of whole answers are made of."""

import numpy as np

from numformer.checks import check_array, check_ids, check_number
from numformer.functional.losses.cross_entropy import IGNORE_INDEX, check_targets
from numformer.functional.softmax import log_softmax


def token_log_probs(logits, tokens, temperature=1.0):
    r"""The log-probability of one given token at each position.

    .. math:: \ell_t = \log p_{t y_t}, \qquad p_t = \mathrm{softmax}(z_t / T)

    Preference and policy losses depend on the logits through these numbers alone. Their sum over
    the tokens of an answer is the log-probability of the answer; minus their mean over the targets
    that count is `cross_entropy`.

    Parameters
    ----------
    logits : ndarray, shape (..., V)
        z.
    tokens : ndarray of int, shape (...)
        y, in 0 .. V-1; or `IGNORE_INDEX`, as for a prompt and padding: such a position gets 0, and
        its logits no gradient.
    temperature : float above 0
        T, with which the tokens were sampled.

    Returns
    -------
    log_probs : ndarray, shape (...), of the dtype of `logits`
        In nats.
    saved : tuple
        For `token_log_probs_backward`.

    Raises
    ------
    ValueError, TypeError
        If shapes differ, tokens are not integers in that range, or the temperature is not above 0.

    References
    ----------
    Sutton and Barto (2018), "Reinforcement Learning", section 13.2, call the gradient of such a
    logarithm the eligibility vector.

    Examples
    --------
    >>> logits, tokens = np.log([[0.5, 0.5], [0.2, 0.8]]), np.array([0, IGNORE_INDEX])
    >>> token_log_probs(logits, tokens)[0].round(3)                   # ln 0.5, and nothing
    array([-0.693,  0.   ])
    """
    owner = "token_log_probs"
    check_array(owner, "logits", logits, "(..., V)")
    check_ids(owner, "tokens", tokens, logits.shape[-1], IGNORE_INDEX)
    check_number(owner, "temperature", temperature, above=0)
    check_targets(owner, logits, tokens, "tokens")
    T, counts = float(temperature), tokens != IGNORE_INDEX           # (...)
    log_p, _ = log_softmax(logits[counts] / T)                       # (n, V): those that count
    tokens = tokens[counts]                                          # (n,)
    log_probs = np.zeros(counts.shape, logits.dtype)
    log_probs[counts] = log_p[np.arange(len(tokens)), tokens]

    saved = (log_p, tokens, counts, T)
    return log_probs, saved


def token_log_probs_backward(dlog_probs, saved):
    r"""The gradient of `token_log_probs`: a one at the token minus the prediction.

    With :math:`\ell_t = z_{t y_t} / T - \log \sum_k e^{z_{tk} / T}`, whose second term has the
    derivative :math:`p_t / T`,

    .. math:: \bar{z}_t = \frac{\bar{\ell}_t}{T} \left( \mathrm{onehot}(y_t) - p_t \right)

    This is minus the gradient of a cross-entropy, with a weight for each token.

    Returns
    -------
    dlogits : ndarray, shape (..., V)
    """
    log_p, tokens, counts, T = saved
    dl = np.asarray(dlog_probs)[counts]                              # (n,)

    # log_probs[counts] = log_p[arange(n), tokens], with log_p = log_softmax(logits[counts] / T)
    dz = -np.exp(log_p) * dl[:, None]                                # (n, V)
    dz[np.arange(len(tokens)), tokens] += dl
    dlogits = np.zeros((*counts.shape, log_p.shape[-1]), dz.dtype)
    dlogits[counts] = dz / T
    return dlogits
