"""Estimates of the KL divergence from the sampled tokens alone."""

import numpy as np

from numformer.checks import check_array, check_choice

ESTIMATORS = ("k1", "k2", "k3", "k3 corrected")


def kl_estimate(log_probs, reference_log_probs, old_log_probs, estimator="k3"):
    r"""How far the policy is from a reference, estimated at each sampled token.

    With :math:`d = \ell^\mathrm{ref} - \ell`, the log-ratio of the reference and the policy at the
    token, and the ratio :math:`r = e^{\ell - \ell^\mathrm{old}}` of the policy and the one that
    sampled,

    ================  ===============  =====================  =============================
    estimator         k                its mean               mean of its gradient
    ================  ===============  =====================  =============================
    ``k1``            -d               KL(policy, reference)  0
    ``k2``            d² / 2           another number         that of KL(policy, reference)
    ``k3``            e^d - d - 1      KL(policy, reference)  that of KL(reference, policy)
    ``k3 corrected``  r (e^d - d - 1)  KL(policy, reference)  that of KL(policy, reference)
    ================  ===============  =====================  =============================

    where the tokens are samples of the policy as it is, r = 1. As a number, k3 is the best: it is
    never negative, and varies less than k1. As a part of a loss its gradient is that of the *other*
    divergence: the samples depend on the policy, too, and the derivative of k3 leaves that out. The
    factor r brings it in: its value is 1, its derivative is not 0.

    Parameters
    ----------
    log_probs : ndarray, shape (...)
        l, of sampled tokens: `token_log_probs`.
    reference_log_probs, old_log_probs : ndarray, shape (...)
        Of the reference, and of the policy that sampled; constants, rounded to the precision of
        `log_probs`. The old ones matter for ``k3 corrected`` alone.
    estimator : str, one of the four

    Returns
    -------
    k : ndarray, shape (...)
        In nats.
    saved : tuple
        For `kl_estimate_backward`.

    Raises
    ------
    ValueError, TypeError
        If shapes differ, an array is not one of floats, or the estimator is unknown.

    References
    ----------
    Schulman (2020), "Approximating KL Divergence". The correction: DeepSeek-AI (2025),
    "DeepSeek-V3.2", section 3.1.

    Examples
    --------
    >>> l, reference = np.log([0.5]), np.log([0.25])
    >>> [float(kl_estimate(l, reference, l, k)[0].round(3)[0]) for k in ("k1", "k2", "k3")]
    [0.693, 0.24, 0.193]
    """
    owner = "kl_estimate"
    check_array(owner, "log_probs", log_probs, "(...)")
    check_choice(owner, "estimator", estimator, ESTIMATORS)
    for name, x in (("reference_log_probs", reference_log_probs), ("old_log_probs", old_log_probs)):
        check_array(owner, name, x, "(...)")
        if x.shape != log_probs.shape:
            raise ValueError(f"{owner}: {name} has shape {x.shape}, but log_probs has "
                             f"{log_probs.shape}; give one for each token.")
    reference, old = (x.astype(log_probs.real.dtype)
                      for x in (reference_log_probs, old_log_probs))
    d = reference - log_probs
    r = np.exp(log_probs - old) if estimator == "k3 corrected" else None
    k = {"k1": lambda: -d, "k2": lambda: d * d / 2, "k3": lambda: np.expm1(d) - d,
         "k3 corrected": lambda: r * (np.expm1(d) - d)}[estimator]()

    saved = (d, r, estimator)
    return k, saved


def kl_estimate_backward(dk, saved):
    r"""The gradient of `kl_estimate` with respect to the policy; :math:`\partial d / \partial \ell`
    is -1.

    .. math::

        \bar{\ell} = \bar{k} \cdot \begin{cases}
            1 & \mathrm{k1} \\ -d & \mathrm{k2} \\ 1 - e^d & \mathrm{k3} \\
            r (e^d - d - 1) + r (1 - e^d) = -r d & \mathrm{k3\ corrected} \end{cases}

    Returns
    -------
    dlog_probs : ndarray, shape (...)
    """
    d, r, estimator = saved

    # k1 = -d;  k2 = d * d / 2;  k3 = expm1(d) - d;  corrected, r * k3
    slope = {"k1": lambda: np.ones_like(d), "k2": lambda: -d, "k3": lambda: -np.expm1(d),
             "k3 corrected": lambda: -r * d}[estimator]()
    return dk * slope
