"""Rotary positions: queries and keys are rotated by angles that grow with the position."""

from functools import lru_cache

import numpy as np

from numformer.checks import check_array, check_choice, check_even


def rotary_frequencies(width, base=10000.0):
    r"""The angle by which each pair of coordinates is rotated further from a position to the next.

    .. math:: \theta_i = \text{base}^{-2i/D}, \qquad i = 0 \dots D/2 - 1

    Parameters
    ----------
    width : int
        D, even.
    base : float

    Returns
    -------
    ndarray, shape (D/2,), float64

    Raises
    ------
    ValueError
        If the width is odd.

    References
    ----------
    Su et al. (2021), "RoFormer", section 3.2.2.

    Examples
    --------
    >>> rotary_frequencies(4, 100.0)
    array([1. , 0.1])
    """
    check_even("rotary_frequencies", "width", width)
    return float(base) ** (-np.arange(0, width, 2) / width)          # (D/2,)


@lru_cache(maxsize=64)
def rotary_angles(start, stop, width, base=10000.0, dtype=np.float64):
    r"""Cosines and sines of the angles by which `rotary` rotates positions start .. stop - 1.

    .. math:: \theta_{t, i} = t\, \text{base}^{-2i/D}, \qquad i = 0 \dots D/2 - 1

    Parameters
    ----------
    start, stop : int
    width : int
        D, even.
    base : float
    dtype : float32 or float64
        The angles are computed in float64.

    Returns
    -------
    cosine, sine : ndarray, shape (T, D/2)
        Read-only, because they are cached for the next call.

    Raises
    ------
    ValueError
        If the width is odd.

    Examples
    --------
    >>> rotary_angles(0, 2, 2)[0].round(3)
    array([[1.  ],
           [0.54]])
    """
    check_even("rotary_angles", "width", width)
    return angles_of(start, stop, tuple(rotary_frequencies(width, base)), 1.0, dtype)


@lru_cache(maxsize=64)
def angles_of(start, stop, frequencies, attention_factor=1.0, dtype=np.float64):
    """`rotary_angles` of any frequencies, a tuple, times a factor, as `scaled_frequencies` has it.

    Multiplied by a number, a rotation is no longer one, but its gradient is its transpose still.

    Examples
    --------
    >>> angles_of(0, 2, (0.5,), attention_factor=2.0)[0].round(3)
    array([[2.   ],
           [1.755]])
    """
    angles = np.arange(start, stop)[:, None] * np.array(frequencies)  # (T, D/2)
    cosine = (attention_factor * np.cos(angles)).astype(dtype)
    sine = (attention_factor * np.sin(angles)).astype(dtype)
    cosine.flags.writeable = sine.flags.writeable = False
    return cosine, sine


def rotary(x, cosine, sine, layout="half"):
    r"""Rotate every pair of coordinates, so that q . k depends on positions through distance only.

    .. math:: \begin{pmatrix} y_a \\ y_b \end{pmatrix} =
              \begin{pmatrix} \cos\theta & -\sin\theta \\ \sin\theta & \cos\theta \end{pmatrix}
              \begin{pmatrix} x_a \\ x_b \end{pmatrix}

    Parameters
    ----------
    x : ndarray, shape (..., T, D)
        Queries or keys.
    cosine, sine : ndarray, shape (T, D/2)
        From `rotary_angles`.
    layout : "half" or "interleaved"
        Which coordinates form a pair (a, b): i and i + D/2, as in the weights that GPT-NeoX and
        Transformers' LLaMA publish, or 2i and 2i + 1, as in the paper. The two differ only by a
        permutation of the coordinates.

    Returns
    -------
    y : ndarray, shape (..., T, D)
    saved : tuple
        For `rotary_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays do not fit together, or the layout is unknown.

    References
    ----------
    Su et al. (2021), "RoFormer", eq. 34.

    Examples
    --------
    >>> rotary(np.array([[1.0, 0.0], [1.0, 0.0]]), *rotary_angles(0, 2, 2))[0].round(3)
    array([[1.   , 0.   ],
           [0.54 , 0.841]])
    """
    check_rotary(x, cosine, sine, layout)
    a, b = _pairs(layout, x.shape[-1])
    real = x.real.dtype
    cosine, sine = cosine.astype(real, copy=False), sine.astype(real, copy=False)
    y = np.empty_like(x)
    y[..., a] = x[..., a] * cosine - x[..., b] * sine                # (..., T, D/2)
    y[..., b] = x[..., a] * sine + x[..., b] * cosine

    saved = (cosine, sine, layout)
    return y, saved


def rotary_backward(dy, saved):
    r"""The gradient of `rotary`: the transpose of a rotation is its inverse, so rotate back.

    The equation holds for any cosine and sine, also for those times a factor, as YaRN has them.

    .. math:: \bar{x}_a = \cos\theta\, \bar{y}_a + \sin\theta\, \bar{y}_b, \qquad
              \bar{x}_b = -\sin\theta\, \bar{y}_a + \cos\theta\, \bar{y}_b

    Returns
    -------
    dx : ndarray, shape (..., T, D)
    """
    cosine, sine, layout = saved

    # y_a = x_a cos - x_b sin;  y_b = x_a sin + x_b cos
    return rotary(dy, cosine, -sine, layout)[0]


def check_rotary(x, cosine, sine, layout):
    """Check the arguments of `rotary`."""
    T, half = check_array("rotary", "cosine", cosine, "(T, D/2)").values()
    check_array("rotary", "sine", sine, "(T, D/2)", **{"T": T, "D/2": half})
    check_array("rotary", "x", x, "(..., T, D)", T=T, D=2 * half)
    check_choice("rotary", "layout", layout, ["half", "interleaved"])


def _pairs(layout, width):
    """The slices of the first and of the second coordinates of all pairs."""
    if layout == "half":
        return slice(0, width // 2), slice(width // 2, width)
    return slice(0, None, 2), slice(1, None, 2)
