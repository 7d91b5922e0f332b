"""A power law through points: a straight line on logarithmic axes."""

import numpy as np


def power_law(x, y):
    r"""The factor and the exponent of the power law that is nearest in logarithms.

    .. math:: \min_{a, s} \sum_i \left( \log a + s \log x_i - \log y_i \right)^2,
              \qquad y \approx a\, x^s

    Parameters
    ----------
    x, y : sequence of float above 0, length n
        n is 2 or more, with different x.

    Returns
    -------
    factor, exponent : float
        a and s; s is the slope on logarithmic axes.

    Raises
    ------
    ValueError
        If there are fewer than two points, or one is not above 0.

    Examples
    --------
    >>> factor, exponent = power_law([1, 2, 4], [3, 12, 48])
    >>> round(factor, 6), round(exponent, 6)
    (3.0, 2.0)
    """
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if x.shape != y.shape or x.ndim != 1 or len(set(x.tolist())) < 2:
        raise ValueError(f"power_law: x and y of shapes {x.shape} and {y.shape} must be as many "
                         "numbers, with at least two different x.")
    if not (np.isfinite(x).all() and np.isfinite(y).all() and (x > 0).all() and (y > 0).all()):
        raise ValueError("power_law: all numbers must be finite and above 0, because their "
                         "logarithms are fitted.")
    exponent, log_factor = np.polyfit(np.log(x), np.log(y), 1)
    return float(np.exp(log_factor)), float(exponent)
