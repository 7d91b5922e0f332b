"""A probe that scores the mentions before a pronoun: softmax regression on a bilinear form."""

from typing import NamedTuple

import numpy as np

from numformer.experiments.meaning.world_bert import FIRST
from numformer.functional import log_softmax

DECAY = 2.0                                                           # of the squared weights
NEAR = 4                                              # from here on, mentions share a bias
NEVER = -1e9                                          # the score of what is no candidate


class Examples(NamedTuple):
    """Pronouns with their candidates, padded to one number K.

    Parameters
    ----------
    pronouns : ndarray, shape (N, C)
    mentions : ndarray, shape (N, K, C)
    nearness : ndarray of int, shape (N, K)
        0 for the nearest candidate, 1 for the one before it ... `NEAR`.
    real, right : ndarray of bool, shape (N, K)
        Which are candidates, and which of these are mentions of the referent.
    """

    pronouns: np.ndarray
    mentions: np.ndarray
    nearness: np.ndarray
    real: np.ndarray
    right: np.ndarray


def examples_of(states, pronouns):
    """The `Examples` of a list of `Pronoun`, with the vectors (tales, T, C) of a layer."""
    N, K = len(pronouns), max(len(each.candidates) for each in pronouns)
    tokens, nearness = np.zeros((N, K), int), np.full((N, K), NEAR)
    real, right = np.zeros((2, N, K), bool)
    for n, each in enumerate(pronouns):
        k = len(each.candidates)
        tokens[n, :k], right[n, :k], real[n, :k] = each.candidates, each.right, True
        nearness[n, :k] = np.minimum(np.arange(k)[::-1], NEAR)
    tale = np.array([each.tale for each in pronouns])
    own = np.array([each.token for each in pronouns])
    return Examples(states[tale, own + FIRST].astype(np.float64),
                    states[tale[:, None], tokens + FIRST].astype(np.float64), nearness, real, right)


def scores(examples, A, b):
    """The scores of all candidates, (N, K)."""
    mapped = examples.pronouns @ A                                    # (N, C)
    s = np.einsum("nkc,nc->nk", examples.mentions, mapped) + b[examples.nearness]
    return np.where(examples.real, s, NEVER)


def loss_and_gradient(examples, A, b):
    r"""Minus the log-likelihood of the right mentions, and its gradient.

    .. math:: L = -\sum_p \log \sum_{m \text{ right}} \mathrm{softmax}(s)_m
                  + \tfrac{\lambda}{2} |A|^2

    Returns
    -------
    loss : float
    dA, db : ndarrays
    """
    s = scores(examples, A, b)
    log_p = log_softmax(s)[0]                                         # (N, K)
    of_right = np.where(examples.right, s, NEVER)
    loss = -np.logaddexp.reduce(np.where(examples.right, log_p, NEVER), axis=1).sum()

    # loss = -log(sum of the right p): prediction minus target, which is p among the right ones
    ds = np.exp(log_p) - np.exp(log_softmax(of_right)[0])             # (N, K)

    # s = mentions . (pronouns @ A) + b[nearness]
    dA = examples.pronouns.T @ np.einsum("nk,nkc->nc", ds, examples.mentions)
    db = np.bincount(examples.nearness.ravel(), ds.ravel(), len(b))
    return loss + DECAY / 2 * (A * A).sum(), dA + DECAY * A, db


def fit_probe(examples):
    r"""Fit the scores of mentions m before a pronoun p, by the likelihood of the right ones.

    .. math:: s_m = p^\top A\, m + b_{d(m)}

    with a bias for the nearest mention, the one before it, and so on. So a probe of vectors that
    say nothing is as good as the best rule of nearness.

    Returns
    -------
    A, b : ndarrays, shapes (C, C) and (NEAR + 1,)
    """
    from scipy.optimize import minimize

    C = examples.pronouns.shape[1]
    size = float(np.square(examples.pronouns).mean()) or 1.0
    factor = (size * C ** 0.5) ** -0.5                # then products of two vectors are about 1
    scaled = examples._replace(pronouns=examples.pronouns * factor,
                               mentions=examples.mentions * factor)

    def objective(x):
        loss, dA, db = loss_and_gradient(scaled, x[: C * C].reshape(C, C), x[C * C :])
        return loss, np.concatenate([dA.ravel(), db])

    x = minimize(objective, np.zeros(C * C + NEAR + 1), jac=True, method="L-BFGS-B",
                 options=dict(maxiter=60)).x
    return x[: C * C].reshape(C, C) * factor * factor, x[C * C :]


def probe_accuracy(examples, A, b):
    """How often the mention with the largest score is one of the referent."""
    best = scores(examples, A, b).argmax(axis=1)
    return float(examples.right[np.arange(len(best)), best].mean())
