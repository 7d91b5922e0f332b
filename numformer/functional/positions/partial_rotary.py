"""Rotary positions on a part of each head: the other coordinates carry content alone."""

import numpy as np

from numformer.checks import check_array
from numformer.functional.positions.rotary import rotary, rotary_backward


def partial_rotary(x, cosine, sine, layout="half"):
    r"""Rotate the first R coordinates of every vector; the other D - R stay as they are.

    .. math:: y = [\, \mathrm{rotary}(x_{1 \dots R}),\; x_{R + 1 \dots D} \,]

    Parameters
    ----------
    x : ndarray, shape (..., T, D)
        Queries or keys.
    cosine, sine : ndarray, shape (T, R/2)
        From `rotary_angles` of width R <= D.
    layout : "half" or "interleaved"
        As in `rotary`; pairs are of the first R coordinates.

    Returns
    -------
    y : ndarray, shape (..., T, D)
    saved : tuple
        For `partial_rotary_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays do not fit together, or the layout is unknown.

    References
    ----------
    Black et al. (2022), "GPT-NeoX-20B", section 2.1.1.

    Examples
    --------
    >>> from numformer.functional import rotary_angles
    >>> partial_rotary(np.ones((2, 3)), *rotary_angles(0, 2, 2))[0].round(3)
    array([[ 1.   ,  1.   ,  1.   ],
           [-0.301,  1.382,  1.   ]])
    """
    D = check_array("partial_rotary", "x", x, "(..., T, D)")["D"]
    R = 2 * check_array("partial_rotary", "cosine", cosine, "(T, R/2)")["R/2"]
    if R > D:
        raise ValueError(f"partial_rotary: cosine is for R={R} coordinates, but x has only D={D}; "
                         "use rotary_angles of width D or less.")
    rotated, saved_rotary = rotary(x[..., :R], cosine, sine, layout)  # (..., T, R)
    y = np.concatenate([rotated, x[..., R:]], axis=-1)

    saved = (R, saved_rotary)
    return y, saved


def partial_rotary_backward(dy, saved):
    r"""The gradient of `partial_rotary`: rotate the first R coordinates back.

    .. math:: \bar{x} = [\, \mathrm{rotary}'(\bar{y}_{1 \dots R}),\; \bar{y}_{R + 1 \dots D} \,]

    Returns
    -------
    dx : ndarray, shape (..., T, D)
    """
    R, saved_rotary = saved

    # y = concatenate(rotary(x[:R]), x[R:])
    return np.concatenate([rotary_backward(dy[..., :R], saved_rotary), dy[..., R:]], axis=-1)
