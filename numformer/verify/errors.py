"""How far what was found is from the truth: the one measure of every check here."""

import numpy as np


def relative_error(found, truth, scale):
    """|found - truth| / (|truth| + scale / 100), elementwise; Inf where either is NaN. `scale` is the largest number around."""
    error = np.abs(found - truth) / np.maximum(np.abs(truth) + 0.01 * scale, np.finfo(float).tiny)
    return np.where(np.isnan(error), np.inf, error)


def largest(jacobians):
    """The largest number of a dict of arrays; 0 where there is none."""
    return max((np.abs(J).max(initial=0) for J in jacobians.values()), default=0)


def far(found, truth):
    """The largest difference of two dicts of arrays, relative to the largest number of the second."""
    return largest({name: found[name] - J for name, J in truth.items()}) / (largest(truth) or 1.0)
