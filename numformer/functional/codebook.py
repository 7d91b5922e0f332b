"""The nearest code of a codebook: vectors become tokens."""

from numformer.checks import check_array


def nearest_codes(z, codebook):
    r"""The code that is nearest to each vector: a token of a discrete vocabulary.

    .. math:: k_n = \mathrm{argmin}_v\, |z_n - e_v|^2
                  = \mathrm{argmin}_v \left( \tfrac12 |e_v|^2 - z_n \cdot e_v \right)

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
        If the arrays are not floats of one precision that fit together, or there are no codes.

    References
    ----------
    Van den Oord et al. (2017), "Neural Discrete Representation Learning", eq. 1.

    Examples
    --------
    >>> import numpy as np
    >>> codebook = np.array([[0.0, 0.0], [1.0, 1.0]])
    >>> nearest_codes(np.array([[0.1, 0.2], [0.9, 0.4]]), codebook)
    array([0, 1])
    """
    C = check_array("nearest_codes", "codebook", codebook, "(V, C)")["C"]
    check_array("nearest_codes", "z", z, "(..., C)", codebook.dtype, C=C)
    if not len(codebook):
        raise ValueError(f"nearest_codes: codebook of shape {codebook.shape} has no codes; give at "
                         "least one.")
    e = codebook.real
    return ((e * e).sum(axis=-1) / 2 - z.real @ e.T).argmin(axis=-1)
