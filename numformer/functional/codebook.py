"""The nearest code of a codebook: vectors become tokens."""

import numpy as np

from numformer.checks import check_array
from numformer.functional.scaling import rescaled

AT_ONCE = 2 ** 20                                    # numbers of an array of differences


def nearest_codes(z, codebook):
    r"""The code that is nearest to each vector: a token of a discrete vocabulary.

    .. math:: k_n = \mathrm{argmin}_v\, |z_n - e_v|

    from the differences themselves: :math:`\tfrac12 |e_v|^2 - z_n \cdot e_v`, one matrix product,
    has its minimum at the same code, but loses in rounding what z and e have in common.

    Parameters
    ----------
    z : ndarray, shape (..., C)
    codebook : ndarray, shape (V, C)
        e.

    Returns
    -------
    ids : ndarray of int64, shape (...)
        In 0 .. V-1; of equally near codes the first. There is no gradient.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision that fit together, there are no codes, or
        there is NaN or Inf, to which nothing is near.

    References
    ----------
    Van den Oord et al. (2017), "Neural Discrete Representation Learning", eq. 1.

    Examples
    --------
    >>> codebook = np.array([[0.0, 0.0], [1.0, 1.0]])
    >>> nearest_codes(np.array([[0.1, 0.2], [0.9, 0.4]]), codebook)
    array([0, 1])
    """
    C = check_array("nearest_codes", "codebook", codebook, "(V, C)")["C"]
    check_array("nearest_codes", "z", z, "(..., C)", codebook.dtype, C=C)
    if not len(codebook):
        raise ValueError(f"nearest_codes: codebook of shape {codebook.shape} has no codes; give at "
                         "least one.")
    for name, x in (("z", z), ("codebook", codebook)):
        wrong = np.argwhere(~np.isfinite(x))
        if len(wrong):
            index = tuple(int(i) for i in wrong[0])
            raise ValueError(f"nearest_codes: {name} must be finite, but holds {x[index]} at index "
                             f"{index}; after steps of training, begin anew with a lower learning "
                             "rate.")
    vectors, e = z.real.reshape(-1, C), codebook.real                 # (N, C), (V, C)
    ids, step = np.empty(len(vectors), np.int64), max(1, AT_ONCE // max(1, e.size))
    for n in range(0, len(vectors), step):
        differences, scale = rescaled(vectors[n:n + step, None] - e)  # (B, V, C)
        distances = (differences * differences).sum(axis=-1, keepdims=True) ** 0.5 * scale
        ids[n:n + step] = distances[..., 0].argmin(axis=1)
    return ids.reshape(z.shape[:-1])
