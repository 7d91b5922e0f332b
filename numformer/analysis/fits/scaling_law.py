"""The loss as a function of a model's size and of its data: a fit of a few runs predicts others."""

from typing import NamedTuple

import numpy as np

HUBER = 1e-3                                          # Hoffmann et al. (2022), section D.2


class ScalingLaw(NamedTuple):
    r"""A loss that falls with parameters and with tokens, to a limit that neither removes.

    .. math:: L(N, D) = E + \frac{A}{N^{\alpha}} + \frac{B}{D^{\beta}}

    Parameters
    ----------
    limit : float
        E, in nats per token: the loss of an infinite model with infinite data.
    size, data : float
        A and B.
    alpha, beta : float
        The exponents.
    """

    limit: float
    size: float
    data: float
    alpha: float
    beta: float

    def loss(self, parameters, tokens):
        """The loss of models by number of parameters and of training tokens.

        Examples
        --------
        >>> ScalingLaw(1.5, 10.0, 20.0, 0.5, 0.5).loss(100, 400)
        3.5
        """
        return (self.limit + self.size / parameters ** self.alpha
                + self.data / tokens ** self.beta)


def fit_scaling_law(parameters, tokens, losses):
    r"""Fit a `ScalingLaw` to the losses of several runs.

    .. math::

        \min_{E, A, B, \alpha, \beta} \sum_i
        \mathrm{Huber}_{0.001} \left( \log L(N_i, D_i) - \log L_i \right)

    The minimum is the best of many starts. Beyond the threshold of Huber's loss, an error counts
    linearly: a single run that went wrong changes little.

    Parameters
    ----------
    parameters, tokens : sequence of float, length n
        N and D of each run; n is 5 or more.
    losses : sequence of float, length n
        In nats per token, after training.

    Returns
    -------
    ScalingLaw

    Raises
    ------
    ValueError
        If there are fewer than five runs, their numbers differ, one is not above 0, or all runs
        have one size or one number of tokens.

    References
    ----------
    Hoffmann et al. (2022), "Training Compute-Optimal Large Language Models", section 3.3 and
    section D.2.

    Examples
    --------
    >>> N, D = np.repeat([1e3, 1e4, 1e5], 3), np.tile([1e4, 1e5, 1e6], 3)
    >>> law = fit_scaling_law(N, D, 1 + 20 / N ** 0.5 + 100 / D ** 0.4)
    >>> round(law.limit, 2), round(law.alpha, 2), round(law.beta, 2)
    (1.0, 0.5, 0.4)
    """
    from scipy.optimize import least_squares

    N, D, L = (np.asarray(x, np.float64) for x in (parameters, tokens, losses))
    if not N.shape == D.shape == L.shape or N.ndim != 1 or len(N) < 5:
        raise ValueError("fit_scaling_law: parameters, tokens and losses must be numbers of the "
                         f"same 5 or more runs, but have shapes {N.shape}, {D.shape}, {L.shape}.")
    for name, x in (("parameters", N), ("tokens", D), ("losses", L)):
        if not (np.isfinite(x).all() and (x > 0).all()):
            raise ValueError(f"fit_scaling_law: {name} must be finite and above 0.")
    if len(set(N)) < 2 or len(set(D)) < 2:
        raise ValueError("fit_scaling_law: all runs have the same parameters or the same tokens; "
                         "both must vary.")
    n, d = np.log(N / N.min()), np.log(D / D.min())   # terms of the smallest run: well scaled

    def errors(x):
        limit, size, data, alpha, beta = x
        loss = np.exp(limit) + np.exp(size - alpha * n) + np.exp(data - beta * d)
        return np.log(loss / L)

    low, high = [-5, -12, -12, 0, 0], [np.log(L.min()), 5, 5, 3, 3]
    starts = [(np.log(share * L.min()), -1, -1, alpha, beta) for share in (0.3, 0.7, 0.95)
              for alpha in (0.3, 1) for beta in (0.3, 1)]
    best = min((least_squares(errors, start, bounds=(low, high), loss="huber", f_scale=HUBER,
                              x_scale=(1, 1, 1, 0.3, 0.3)) for start in starts),
               key=lambda fit: fit.cost)
    limit, size, data, alpha, beta = map(float, best.x)
    return ScalingLaw(float(np.exp(limit)), float(np.exp(size) * N.min() ** alpha),
                      float(np.exp(data) * D.min() ** beta), alpha, beta)
