"""The policy loss: answers that earned more than others of their group become more likely."""

import numpy as np

from numformer.checks import check_array, check_choice, check_number
from numformer.functional.losses.kl_estimate import (
    ESTIMATORS, kl_estimate, kl_estimate_backward)

NORMALIZATIONS = ("sequence", "token", "constant")


def policy_loss(log_probs, old_log_probs, advantages, counts, reference_log_probs=None,
                clip_low=0.2, clip_high=0.2, beta=0.0, estimator="k3", normalization="token",
                length=None):
    r"""The clipped objective of PPO, with a penalty for the distance from a reference.

    .. math::

        L = \sum_{nt} w_{nt} \left[ -\min\left( r_{nt} A_n, \;
            \mathrm{clip}(r_{nt}, 1 - c_\mathrm{low}, 1 + c_\mathrm{high})\, A_n \right)
            + \beta\, k_{nt} \right], \qquad r_{nt} = e^{\ell_{nt} - \ell^\mathrm{old}_{nt}}

    The gradient of an expected reward is the mean of :math:`A\, \nabla \ell` over samples of the
    policy. r has this gradient where the policy is the one that sampled: r = 1, and
    :math:`\nabla r = \nabla \ell`. After some steps the policy is another one. r then weights each
    token by how much more likely it has become, and the clip ends a movement that has gone far
    enough: of two objectives the minimum takes the smaller, so nothing is gained by going further,
    and a step back is never cut off.

    The weights w are those of tokens that count, and 0 elsewhere:

    ============  ==========================  =======================================
    ``sequence``  1 / (N T_n)                 GRPO: each answer is a mean of its own
    ``token``     1 / (T_1 + ... + T_N)       DAPO: each token of the batch the same
    ``constant``  1 / (N length)              Dr. GRPO: no answer by its own length
    ============  ==========================  =======================================

    with N, the number of answers that have tokens, and T_n, the number of tokens of one.

    Parameters
    ----------
    log_probs : ndarray, shape (N, T)
        l, `token_log_probs` of sampled answers.
    old_log_probs : ndarray, shape (N, T)
        Of the policy that sampled them; constants.
    advantages : ndarray, shape (N,)
        A, of whole answers, as from `group_advantages`; constants.
    counts : ndarray of bool, shape (N, T)
        True for the tokens of answers, with their EOS: not for prompts and padding.
    reference_log_probs : ndarray, shape (N, T), optional
        Of the reference; constants. Needed where beta is not 0.
    clip_low, clip_high : float
        Both at least 0, clip_low at most 1.
    beta : float, at least 0
        The weight of the penalty.
    estimator : str
        k: see `kl_estimate`.
    normalization : "sequence", "token" or "constant"
    length : float above 0, optional
        Of "constant", such as the largest length of an answer.

    Returns
    -------
    loss : scalar of the dtype of `log_probs`
    saved : tuple
        For `policy_loss_backward`.

    Raises
    ------
    ValueError, TypeError
        If shapes differ, no token counts, a number is out of its range, the length does not go with
        the normalization, or a penalty has no reference.

    Notes
    -----
    Where a batch is divided, a part has the weight of its tokens for "token", and of its answers
    for the other two; then the sum does not depend on how it is divided.

    References
    ----------
    Schulman et al. (2017), "Proximal Policy Optimization Algorithms", eq. 7; Shao et al. (2024),
    "DeepSeekMath", eq. 3 (GRPO); Yu et al. (2025), "DAPO", eq. 8, with two bounds of the clip; Liu
    et al. (2025), "Understanding R1-Zero-Like Training", section 3 (Dr. GRPO).

    Examples
    --------
    >>> old, counts = np.log([[0.5, 0.5]]), np.array([[True, True]])
    >>> float(policy_loss(old, old, np.array([2.0]), counts)[0])      # r = 1: minus the advantage
    -2.0
    >>> more = old + np.log([[1.1, 1.9]])                             # the second one is clipped
    >>> round(float(policy_loss(more, old, np.array([2.0]), counts)[0]), 3)
    -2.3
    """
    owner = "policy_loss"
    _check(owner, log_probs, old_log_probs, advantages, counts, reference_log_probs)
    check_number(owner, "clip_low", clip_low, least=0)
    check_number(owner, "clip_high", clip_high, least=0)
    check_number(owner, "beta", beta, least=0)
    check_choice(owner, "estimator", estimator, ESTIMATORS)
    if clip_low > 1:
        raise ValueError(f"{owner}: clip_low={clip_low!r} must be at most 1, as a ratio is above "
                         "0.")
    if beta and reference_log_probs is None:
        raise ValueError(f"{owner}: beta={beta} needs reference_log_probs; give them, or beta=0.")
    weights = token_weights(counts, normalization, length).astype(log_probs.real.dtype)    # (N, T)
    low, high, beta = float(clip_low), float(clip_high), float(beta)
    old = old_log_probs.astype(weights.dtype)
    A = advantages.astype(weights.dtype)[:, None]                    # (N, 1)
    r = np.exp(np.where(counts, log_probs - old, 0))                 # (N, T)

    # min(r A, clip(r) A): r A, until r has left the clip in the direction of A; NaN stays NaN
    moves = ~np.where(A > 0, r.real > 1 + high, r.real < 1 - low)
    bound = np.where(A > 0, 1 + high, 1 - low).astype(weights.dtype)
    loss = -(weights * np.where(moves, r, bound) * A).sum()

    saved_kl = None
    if beta:
        inside = [np.where(counts, x, 0) for x in (log_probs, reference_log_probs, old)]
        k, saved_kl = kl_estimate(*inside, estimator)                # (N, T)
        loss = loss + beta * (weights * k).sum()

    saved = (weights, r, A, moves, beta, saved_kl)
    return loss, saved


def policy_loss_backward(dloss, saved):
    r"""The gradient of `policy_loss` with respect to the policy.

    The derivative of r is r itself. It is multiplied by A where the minimum is r A: for
    :math:`A > 0` where :math:`r \le 1 + c_\mathrm{high}`, else where
    :math:`r \ge 1 - c_\mathrm{low}`. Where the clip is the minimum, it is constant.

    .. math::

        \bar{\ell}_{nt} = \bar{L}\, w_{nt} \left( -[r_{nt} A_n \text{ is the minimum}]\, r_{nt} A_n
                          + \beta\, \frac{\partial k_{nt}}{\partial \ell_{nt}} \right)

    Parameters
    ----------
    dloss : float

    Returns
    -------
    dlog_probs : ndarray, shape (N, T)
    """
    weights, r, A, moves, beta, saved_kl = saved
    dterms = float(dloss) * weights                                  # (N, T), 0 where none counts

    # loss = -(weights * where(moves, r, bound) * A).sum(), with r = exp(log_probs - old)
    dlog_probs = -dterms * np.where(moves, r * A, 0)

    # loss = loss + beta * (weights * kl_estimate(log_probs)).sum()
    if saved_kl is not None:
        dlog_probs = dlog_probs + kl_estimate_backward(beta * dterms, saved_kl)
    return dlog_probs


def token_weights(counts, normalization, length=None):
    """The weight of each token in the loss, (N, T): see `policy_loss`.

    Examples
    --------
    >>> token_weights(np.array([[True, False], [True, True]]), "sequence")
    array([[0.5 , 0.  ],
           [0.25, 0.25]])
    """
    owner = "policy_loss"
    check_choice(owner, "normalization", normalization, NORMALIZATIONS)
    if (normalization == "constant") != (length is not None):
        raise ValueError(f"{owner}: normalization={normalization!r} came with length={length!r}; "
                         'a length goes with "constant", and with nothing else.')
    lengths = counts.sum(axis=1, keepdims=True)                      # (N, 1)
    N = np.count_nonzero(lengths)
    if not N:
        raise ValueError(f"{owner}: counts is False everywhere; at least one token has to count.")
    if normalization == "token":
        return counts / lengths.sum()
    if normalization == "constant":
        check_number(owner, "length", length, above=0)
        return counts / (N * float(length))
    return counts / (N * np.maximum(lengths, 1))


def group_advantages(rewards, scale=True, epsilon=1e-4):
    r"""How much better each answer is than the others to its prompt.

    .. math:: A_{pg} = \frac{R_{pg} - m_p}{s_p + \epsilon}, \qquad
              m_p = \frac{1}{G} \sum_g R_{pg}, \quad
              s_p^2 = \frac{1}{G} \sum_g (R_{pg} - m_p)^2

    The mean of the group is the baseline: no value function is trained. Without `scale` there is no
    division, so that easy and hard prompts, where most answers earn the same, count no more than
    others.

    Parameters
    ----------
    rewards : ndarray, shape (P, G)
        R, of G answers to each of P prompts.
    scale : bool
        Whether to divide by the standard deviation of the group.
    epsilon : float, at least 0

    Returns
    -------
    advantages : ndarray, shape (P, G)
        Of sum 0 in each group; 0 where all answers earned the same.

    Raises
    ------
    ValueError, TypeError
        If the rewards are not a matrix of floats, or there are none.

    References
    ----------
    Shao et al. (2024), "DeepSeekMath", section 4.1.2; without the division Liu et al. (2025),
    "Understanding R1-Zero-Like Training", section 3.2. Published code often takes the standard
    deviation with G - 1.

    Examples
    --------
    >>> rewards = np.array([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    >>> group_advantages(rewards, scale=False)
    array([[ 0.75, -0.25, -0.25, -0.25],
           [ 0.  ,  0.  ,  0.  ,  0.  ]])
    """
    owner = "group_advantages"
    check_array(owner, "rewards", rewards, "(P, G)")
    check_choice(owner, "scale", scale, [True, False])
    check_number(owner, "epsilon", epsilon, least=0)
    if not rewards.size:
        raise ValueError(f"{owner}: rewards of shape {rewards.shape} are empty.")
    A = rewards - rewards.mean(axis=1, keepdims=True)
    A[~differing_groups(rewards)] = 0                                 # exactly, whatever is rounded
    if scale:
        deviation = ((A * A).mean(axis=1, keepdims=True)) ** 0.5
        A = A / np.where(deviation > 0, deviation + float(epsilon), 1)
    return A


def differing_groups(rewards):
    """The groups from which something is learned: those whose answers did not all earn the same.

    DAPO samples on until a batch has enough of them; the others have advantages of 0, so they are
    sampled and learned from in vain.

    Parameters
    ----------
    rewards : ndarray, shape (P, G)

    Returns
    -------
    ndarray of bool, shape (P,)

    References
    ----------
    Yu et al. (2025), "DAPO", eq. 11.

    Examples
    --------
    >>> differing_groups(np.array([[1.0, 0.0], [1.0, 1.0]]))
    array([ True, False])
    """
    check_array("differing_groups", "rewards", rewards, "(P, G)")
    return (rewards != rewards[:, :1]).any(axis=1)


def _check(owner, log_probs, old_log_probs, advantages, counts, reference_log_probs):
    sizes = check_array(owner, "log_probs", log_probs, "(N, T)")
    check_array(owner, "old_log_probs", old_log_probs, "(N, T)", **sizes)
    check_array(owner, "advantages", advantages, "(N)", N=sizes["N"])
    if reference_log_probs is not None:
        check_array(owner, "reference_log_probs", reference_log_probs, "(N, T)", **sizes)
    if (not isinstance(counts, np.ndarray) or counts.dtype != bool
            or counts.shape != log_probs.shape):
        raise TypeError(f"{owner}: counts must be an array of bool of the shape of log_probs, "
                        f"{log_probs.shape}, but is {getattr(counts, 'dtype', type(counts))} of "
                        f"shape {np.shape(counts)}.")
