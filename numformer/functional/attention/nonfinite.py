"""How NaN and Inf in masked keys and values are kept from the queries that may not see them.

A masked weight is 0, but 0 * NaN is NaN: one NaN in padding would spread over a whole output. And
an attended NaN must not disappear. So the products of `scaled_dot_product_attention` and
`relative_attention` are `masked_matmul`, which is a plain product where all numbers are finite.
"""

import numpy as np

quiet = np.errstate(invalid="ignore")                    # no warning of Inf - Inf: NaN shows it


def masked_matmul(weights, x, mask):
    """`weights @ x`, where a masked weight contributes nothing, not even to NaN and Inf in x.

    Parameters
    ----------
    weights : ndarray, shape (B, H, T, S)
        0 where masked.
    x : ndarray, shape (B, H, S, D)
    mask : ndarray of bool, broadcastable to (B, H, T, S)

    Returns
    -------
    ndarray, shape (B, H, T, D)

    Examples
    --------
    >>> mask = np.array([[True, False], [True, True]])
    >>> x = np.array([[1.0], [np.nan]])[None, None]
    >>> masked_matmul(mask.astype(float)[None, None], x, mask)[0, 0]
    array([[ 1.],
           [nan]])
    """
    finite = np.isfinite(x)
    if finite.all():
        return weights @ x
    product = weights @ np.where(finite, x, 0)
    mask = np.broadcast_to(mask, weights.shape)
    for j in np.flatnonzero(~finite.all(axis=(0, 1, 3))):            # rare: one row of x at a time
        reached = mask[..., j, None] & ~finite[..., j, None, :]      # (B, H, T, D)
        product = product + np.where(reached, weights[..., j, None] * x[..., j, None, :], 0)
    return product
