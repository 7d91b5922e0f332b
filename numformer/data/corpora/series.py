"""Time series by rule: two waves, a trend and noise, each series with sizes of its own."""

import numpy as np

from numformer.checks import check_generator, check_whole

SHORTEST, LONGEST = 6, 24                                             # periods, in steps
LEAST_NOISE, MOST_NOISE = 0.05, 0.4                                   # standard deviations


def random_series(n, length, rng):
    r"""Sample n time series.

    .. math:: y_t = \sum_{k=1}^{2} a_k \sin\left(2 \pi t / p_k + \phi_k\right)
              + b\, (t - T / 2) / T + \sigma \epsilon_t

    Periods :math:`p_k`, amplitudes, phases, the trend b and the size :math:`\sigma` of the noise
    are sampled for each series: what comes next has to be found in the series itself.

    Parameters
    ----------
    n : int
    length : int
        T.
    rng : numpy.random.Generator

    Returns
    -------
    values : ndarray, shape (n, T)
    noise : ndarray, shape (n,)
        The standard deviations of the noise.

    Raises
    ------
    ValueError, TypeError
        If a size is not a whole number above 0, or rng is no generator.

    Examples
    --------
    >>> values, noise = random_series(2, 5, np.random.default_rng(0))
    >>> values.shape, bool((noise >= 0.05).all())
    ((2, 5), True)
    """
    for name, size in (("n", n), ("length", length)):
        check_whole("random_series", name, size)
    check_generator("random_series", rng, optional=False)
    t = np.arange(length)
    values = rng.uniform(-1, 1, (n, 1)) * (t - length / 2) / length   # (n, T)
    for _ in range(2):
        period, phase = rng.uniform(SHORTEST, LONGEST, (n, 1)), rng.uniform(0, 2 * np.pi, (n, 1))
        values += rng.uniform(0.3, 1, (n, 1)) * np.sin(2 * np.pi * t / period + phase)
    noise = rng.uniform(LEAST_NOISE, MOST_NOISE, n)
    return values + noise[:, None] * rng.standard_normal((n, length)), noise
