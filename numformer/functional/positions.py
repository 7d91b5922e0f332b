"""Where a token stands: sinusoids, rotations, and ALiBi. Nothing here is trained."""

import math
from functools import lru_cache

import numpy as np

from numformer.checks import check_array, check_choice, check_even, check_whole


def sinusoidal_positions(positions, width, dtype=np.float64):
    r"""A clock with many hands: each pair of coordinates turns at its own speed, from 1 to 1/10000 radians a step.

    .. math:: P_{t, 2i} = \sin(t\, \omega_i), \qquad P_{t, 2i+1} = \cos(t\, \omega_i), \qquad \omega_i = 10000^{-2i/C}

    Parameters
    ----------
    positions : ndarray of int, shape (T,)
    width : int
        C. If it is odd, the last sine has no cosine.
    dtype : float32 or float64
        The angles are computed in float64.

    Returns
    -------
    ndarray, shape (T, C)

    Raises
    ------
    ValueError
        If the width is not a whole number above 0.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", section 3.5.

    Examples
    --------
    >>> sinusoidal_positions(np.arange(2), 4).round(2)
    array([[0.  , 1.  , 0.  , 1.  ],
           [0.84, 0.54, 0.01, 1.  ]])
    """
    check_whole("sinusoidal_positions", "width", width)
    frequencies = 10000.0 ** (-np.arange(0, width, 2) / width)        # (C/2,)
    angles = np.asarray(positions)[:, None] * frequencies             # (T, C/2)
    table = np.empty((len(angles), width), dtype)
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles[:, : width // 2])
    return table


@lru_cache(maxsize=64)
def rotary_angles(start, stop, width, base=10000.0, dtype=np.float64):
    r"""Cosines and sines of the angles by which `rotary` turns positions start .. stop-1.

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
        Read-only: they are kept for the next call.

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
    frequencies = float(base) ** (-np.arange(0, width, 2) / width)    # (D/2,)
    angles = np.arange(start, stop)[:, None] * frequencies            # (T, D/2)
    cosine, sine = np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)
    cosine.flags.writeable = sine.flags.writeable = False
    return cosine, sine


def rotary(x, cosine, sine, layout="half"):
    r"""Turn every pair of coordinates by an angle that grows with the position, so that q . k feels only distance.

    .. math:: \begin{pmatrix} y_a \\ y_b \end{pmatrix} = \begin{pmatrix} \cos\theta & -\sin\theta \\ \sin\theta & \cos\theta
              \end{pmatrix} \begin{pmatrix} x_a \\ x_b \end{pmatrix}

    Parameters
    ----------
    x : ndarray, shape (..., T, D)
        Queries or keys.
    cosine, sine : ndarray, shape (T, D/2)
        From `rotary_angles`.
    layout : "half" or "interleaved"
        Which coordinates make a pair (a, b): i and i + D/2, as in GPT-NeoX's and LLaMA's published weights for
        Transformers, or 2i and 2i + 1, as in the paper. The two differ by a permutation of the coordinates alone.

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
    cosine, sine = cosine.astype(x.real.dtype, copy=False), sine.astype(x.real.dtype, copy=False)
    y = np.empty_like(x)
    y[..., a] = x[..., a] * cosine - x[..., b] * sine
    y[..., b] = x[..., a] * sine + x[..., b] * cosine

    saved = (cosine, sine, layout)
    return y, saved


def rotary_backward(dy, saved):
    r"""The gradient of `rotary`: the inverse of a rotation is its transpose, so turn back.

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
    """The slices of the first and the second coordinates of all pairs."""
    if layout == "half":
        return slice(0, width // 2), slice(width // 2, width)
    return slice(0, None, 2), slice(1, None, 2)


def alibi_slopes(n_heads):
    r"""One slope a head, falling geometrically: some heads look near, some far.

    .. math:: m_h = 2^{-8 (h + 1) / H}, \qquad h = 0 \dots H - 1

    for H a power of two; for other H, those of the next lower power, filled up with every second slope of the next higher
    one, as the authors' code does.

    Parameters
    ----------
    n_heads : int
        H.

    Returns
    -------
    ndarray, shape (H,), float64

    References
    ----------
    Press, Smith, Lewis (2022), "Train Short, Test Long", section 3.

    Examples
    --------
    >>> alibi_slopes(4)
    array([0.25      , 0.0625    , 0.015625  , 0.00390625])
    """
    check_whole("alibi_slopes", "n_heads", n_heads)
    power = 2 ** int(math.log2(n_heads))
    slopes = 2.0 ** (-8 * np.arange(1, power + 1) / power)
    between = 2.0 ** (-4 * (1 + 2 * np.arange(n_heads - power)) / power)      # every second slope of twice the power
    return np.concatenate([slopes, between])


def alibi(scores, slopes):
    r"""Take from every attention score in proportion to the distance between query and key.

    .. math:: z_{hij} \leftarrow z_{hij} - m_h\, |i + S - T - j|

    Parameters
    ----------
    scores : ndarray, shape (..., H, T, S)
        The last query stands at the last key.
    slopes : ndarray, shape (H,)
        Constants: they get no gradient.

    Returns
    -------
    y : ndarray, shape of `scores`
    saved : tuple
        For `alibi_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats, or differ in H.

    References
    ----------
    Press, Smith, Lewis (2022), "Train Short, Test Long", section 3.

    Examples
    --------
    >>> alibi(np.zeros((1, 2, 2)), np.array([0.5]))[0]
    array([[[ 0. , -0.5],
            [-0.5,  0. ]]])
    """
    H = check_array("alibi", "slopes", slopes, "(H,)")["H"]
    sizes = check_array("alibi", "scores", scores, "(..., H, T, S)", H=H)
    T, S = sizes["T"], sizes["S"]
    distance = np.abs(np.arange(T)[:, None] + (S - T) - np.arange(S)).astype(scores.real.dtype)
    y = scores - slopes.astype(scores.real.dtype)[:, None, None] * distance

    saved = ()
    return y, saved


def alibi_backward(dy, saved):
    r"""The gradient of `alibi`: a constant was added, so it passes unchanged.

    .. math:: \bar{z} = \bar{y}

    Returns
    -------
    dscores : ndarray, shape of `dy`
    """
    # y = scores - slopes * distance
    return dy.copy()
