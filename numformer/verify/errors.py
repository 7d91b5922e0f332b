"""The error measures that every check here uses: how far computed numbers are from a reference.

What cannot be compared is infinitely far: NaN, an infinity, another shape, what is no number. So a
bound is never passed because of `NaN > bound`, which is false.
"""

import numpy as np

SMALLEST = 2.0 ** -1022                               # normal float64; np.finfo's could be changed


def relative_error(found, reference, scale, equal_infinities=False):
    r"""Elementwise :math:`|found - reference| / (|reference| + 0.01\, scale)`; Inf if incomparable.

    Parameters
    ----------
    found, reference : array_like of numbers, of any one shape
        Both are converted to float64 at least: differences of whole numbers do not wrap around.
    scale : float or ndarray that broadcasts to that shape
        The largest magnitude of the numbers that are compared.
    equal_infinities : bool
        Whether two infinities of the same sign are equal. By default nothing is equal to one.

    Returns
    -------
    ndarray of float64, of the shape of `reference`
        Inf where a number, the reference or the scale is NaN or infinite; everywhere, if the shapes
        differ (nothing is broadcast; if the reference is empty, a single Inf) or if one of the two
        holds no numbers.

    Examples
    --------
    >>> relative_error([1.1, np.nan, np.inf], [1.0, np.nan, np.inf], scale=0)
    array([0.1, inf, inf])
    >>> relative_error(np.uint8([0]), np.uint8([250]), scale=0)
    array([1.])
    """
    shape, (found, reference) = np.shape(reference), map(_numbers, (found, reference))
    if found is None or reference is None or found.shape != reference.shape:
        return np.full(() if 0 in shape else shape, np.inf)
    with np.errstate(all="ignore"):                  # halves: the largest float does not overflow
        size = np.maximum(np.abs(reference / 2) + 0.005 * _numbers(scale), SMALLEST)
        error = np.abs(found / 2 - reference / 2) / size
        error = np.where(np.isfinite(size) & ~np.isnan(error), error, np.inf)
        return np.where(equal_infinities & np.isinf(found) & (found == reference), 0.0, error)


def largest(errors):
    """The largest of a list or array of errors as a float: Inf if one is NaN, 0 if there is none.

    Of NaN and 1, Python's `max` returns whichever comes first.
    """
    errors = np.asarray(errors, float)
    return float(np.where(np.isnan(errors), np.inf, errors).max(initial=0))


def jacobian_scale(jacobian, output_ndim):
    """For every derivative, the smaller of two maxima: over its tensor, and over the outputs.

    So an output, or a parameter, of a small scale is judged by that scale. Derivatives that are NaN
    or infinite do not count.
    """
    size, ndim = _finite_sizes(jacobian), jacobian.ndim
    of_output = size.max(axis=tuple(range(output_ndim, ndim)), keepdims=True, initial=0)
    of_number = size.max(axis=tuple(range(output_ndim)), keepdims=True, initial=0)
    return np.minimum(of_output, of_number)


def largest_magnitude(arrays):
    """The largest finite |number| in a dict of arrays; 0 if there is none."""
    return largest([_finite_sizes(array).max(initial=0) for array in arrays.values()])


def largest_difference(found, reference):
    """The largest |found - reference| of two arrays of one shape; Inf if anything is incomparable.

    Parameters
    ----------
    found, reference : array_like of numbers

    Examples
    --------
    >>> largest_difference([1.0, 2.0], [1.0, 2.5]), largest_difference([np.nan], [np.nan])
    (0.5, inf)
    """
    found, reference = map(_numbers, (found, reference))
    if found is None or reference is None or found.shape != reference.shape:
        return np.inf
    with np.errstate(all="ignore"):
        return largest(np.abs(found - reference))


def relative_distance(found, reference):
    """The largest difference of two dicts of arrays, relative to the reference's largest number.

    Inf if an array is missing in one of them, has another shape, or holds what is not finite.
    """
    if found.keys() != reference.keys():
        return np.inf
    difference = largest([largest_difference(found[name], x) for name, x in reference.items()])
    return difference / (largest_magnitude(reference) or 1.0)


def _numbers(x):
    """As an array of float64, or of a wider type of floats; None if these are no numbers."""
    x = np.asarray(x)
    return x.astype(np.result_type(x, float), copy=False) if x.dtype.kind in "biufc" else None


def _finite_sizes(array):
    size = np.abs(_numbers(array))
    return np.where(np.isfinite(size), size, 0)
