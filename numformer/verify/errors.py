"""The error measures that every check here uses: how far computed numbers are from a reference."""

import numpy as np


def relative_error(found, reference, scale):
    """|found - reference| / (|reference| + scale / 100), elementwise; Inf where that is NaN.

    `scale` is the largest magnitude of the numbers that are compared; it may be an array.
    """
    size = np.maximum(np.abs(reference) + 0.01 * scale, np.finfo(float).tiny)
    error = np.abs(found - reference) / size
    return np.where(np.isnan(error), np.inf, error)


def jacobian_scale(jacobian, output_ndim):
    """For every derivative, the smaller of two maxima: over its tensor, and over the outputs.

    So an output, or a parameter, of a small scale is judged by that scale.
    """
    size, ndim = np.abs(jacobian), jacobian.ndim
    of_output = size.max(axis=tuple(range(output_ndim, ndim)), keepdims=True, initial=0)
    of_number = size.max(axis=tuple(range(output_ndim)), keepdims=True, initial=0)
    return np.minimum(of_output, of_number)


def largest_magnitude(arrays):
    """The largest |number| in a dict of arrays; 0 if there is none."""
    return max((np.abs(array).max(initial=0) for array in arrays.values()), default=0)


def relative_distance(found, reference):
    """The largest difference of two dicts of arrays, relative to the reference's largest number."""
    difference = {name: found[name] - array for name, array in reference.items()}
    return largest_magnitude(difference) / (largest_magnitude(reference) or 1.0)
