r"""Smaller numbers for weights: bfloat16, and 8-bit integers with a scale for each column.

A text is written one token at a time, and each token reads every weight once. So its time is that
of reading the weights, and weights of half or a quarter of the size take half or a quarter of it.
What it costs is precision.

**bfloat16** is the upper half of a float32: its sign, all 8 bits of its exponent, and 7 of the 23
bits of its fraction. It has the range of float32, so no scale is needed, and 8 binary digits: a
rounded number differs from the true one by at most 1/256 of it.

.. math:: |\hat{w} - w| \le 2^{-8} |w| \quad \text{(half of that, if } w \text{ is in the lower
          half of its power of 2)}

**int8** has 255 equally spaced numbers, -127 .. 127, times a scale. One scale for a whole matrix
would be that of its largest weight; one for each column, that of the weights which add up to one
output, costs a number a column and follows them.

.. math:: s_f = \max_c |w_{cf}| / 127, \qquad q_{cf} = \mathrm{round}(w_{cf} / s_f), \qquad
          |s_f q_{cf} - w_{cf}| \le s_f / 2

The scale is the same for all terms of a sum, so the product multiplies by it once, at the end:

.. math:: y_f = s_f \sum_c x_c\, q_{cf}

The errors of many weights are as often up as down, and so are those of a sum far smaller than the
number of its terms suggests.
"""

import numpy as np

SMALLER_WEIGHTS = ["bfloat16", "int8"]
INT8_LARGEST = 127                      # -128 is not used: then a scale fits both signs


def to_bfloat16(x):
    r"""Round to the nearest bfloat16; halfway between two, to the one that ends in a zero bit.

    Adding 0x7fff to the bits carries into the upper half where the lower half is above its middle;
    the last bit that is kept is added for what is exactly in the middle. A float64 is rounded once,
    not to float32 first, which could move it into a middle.

    Parameters
    ----------
    x : ndarray of any shape, float32 or float64
        What is too large becomes Inf; NaN stays NaN.

    Returns
    -------
    codes : ndarray of uint16
        The upper halves of float32 numbers.

    Raises
    ------
    TypeError
        If x is not real.

    References
    ----------
    Kalamkar et al. (2019), "A Study of BFLOAT16 for Deep Learning Training", section 3.

    Examples
    --------
    >>> from_bfloat16(to_bfloat16(np.array([1.0, 1.001, 1.005])))
    array([1.       , 1.       , 1.0078125], dtype=float32)
    """
    _check_real("to_bfloat16", x)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        single = np.ascontiguousarray(x, np.float32)
        # a float64 goes to the float32 next to it that ends in a one bit: then it is rounded once
        bits = single.view(np.uint32) - (np.abs(single) > np.abs(x)) | (single != x)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(x), 0x7FC0, rounded).astype(np.uint16)


def from_bfloat16(codes):
    """The float32 numbers that bfloat16 codes stand for, exactly.

    Parameters
    ----------
    codes : ndarray of uint16

    Returns
    -------
    ndarray of float32

    Examples
    --------
    >>> from_bfloat16(np.array([0x3f80, 0xc000], np.uint16))
    array([ 1., -2.], dtype=float32)
    """
    return (codes.astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_int8(weight):
    """Round the columns of a matrix to whole multiples of a scale each.

    Parameters
    ----------
    weight : ndarray, shape (K, F), float32 or float64

    Returns
    -------
    codes : ndarray of int8, shape (K, F)
        From -127 to 127.
    scale : ndarray, shape (F,), of the dtype of the weight
        1 for a column of zeros.

    Raises
    ------
    ValueError, TypeError
        If the weight is not a real matrix, or holds NaN or Inf, which have no scale.

    References
    ----------
    Jacob et al. (2018), "Quantization and Training of Neural Networks for Efficient
    Integer-Arithmetic-Only Inference", section 2.1, without a zero point; a scale for each column:
    Krishnamoorthi (2018), "Quantizing deep convolutional networks for efficient inference", section
    2.2.

    Examples
    --------
    >>> codes, scale = to_int8(np.array([[1.0, 0.0], [-0.3, 0.0]]))
    >>> codes.tolist(), (codes * scale).round(2).tolist()
    ([[127, 0], [-38, 0]], [[1.0, 0.0], [-0.3, 0.0]])
    """
    _check_real("to_int8", weight)
    if weight.ndim != 2:
        raise ValueError(f"to_int8: weight must have shape (K, F), but has {weight.shape}.")
    largest = np.maximum(weight.max(axis=0, initial=0), -weight.min(axis=0, initial=0))
    if not np.isfinite(largest).all():
        raise ValueError("to_int8: the weight holds NaN or Inf; such a model writes no text.")
    tiny = np.finfo(weight.dtype).tiny
    scale = np.where(largest > tiny * INT8_LARGEST, largest / INT8_LARGEST, 1)
    scale = scale.astype(weight.dtype)
    return np.rint(weight / scale).astype(np.int8), scale


def round_weight(weight, weights):
    """A matrix as it is after it was stored in fewer bits.

    Parameters
    ----------
    weight : ndarray, shape (K, F)
    weights : "bfloat16" or "int8"

    Returns
    -------
    ndarray, shape (K, F), of the dtype of the weight

    Examples
    --------
    >>> round_weight(np.array([[1.0], [0.301]]), "int8").round(4).tolist()
    [[1.0], [0.2992]]
    """
    if weights == "bfloat16":
        return from_bfloat16(to_bfloat16(weight)).astype(weight.dtype)
    codes, scale = to_int8(weight)
    return codes * scale


def _check_real(owner, x):
    if not isinstance(x, np.ndarray) or x.dtype not in (np.float32, np.float64):
        raise TypeError(f"{owner}: needs an array of float32 or float64, but got "
                        f"{getattr(x, 'dtype', type(x).__name__)}.")
