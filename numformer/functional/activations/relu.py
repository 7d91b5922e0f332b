"""ReLU, and its square."""

import numpy as np

from numformer.checks import check_array


def relu(x):
    r"""Keep positive numbers and set the others to 0.

    .. math:: y = \max(0, x)

    Parameters
    ----------
    x : ndarray, any shape

    Returns
    -------
    y : ndarray, shape of `x`
    saved : tuple
        For `relu_backward`.

    Raises
    ------
    TypeError
        If `x` is not an array of floats.

    References
    ----------
    Nair and Hinton (2010), "Rectified Linear Units Improve Restricted Boltzmann Machines".

    Examples
    --------
    >>> relu(np.array([-1.0, 2.0]))[0]
    array([0., 2.])
    """
    check_array("relu", "x", x, "(...)")
    closed = x.real <= 0                         # the real part decides; NaN is not <= 0 and passes
    y = np.where(closed, 0, x)

    saved = (closed,)
    return y, saved


def relu_backward(dy, saved):
    r"""The gradient of `relu`: it passes where the forward passed. At 0 it is 0.

    .. math:: \bar{x} = \bar{y}\, [x > 0]

    Returns
    -------
    dx : ndarray, shape of `x`
    """
    closed, = saved

    # y = where(closed, 0, x)
    return np.where(closed, 0, dy)


def relu_squared(x):
    r"""The square of `relu`: its derivative has no jump.

    .. math:: y = \max(0, x)^2

    Parameters
    ----------
    x : ndarray, any shape

    Returns
    -------
    y : ndarray, shape of `x`
    saved : tuple
        For `relu_squared_backward`.

    Raises
    ------
    TypeError
        If `x` is not an array of floats.

    References
    ----------
    So et al. (2021), "Primer: Searching for Efficient Transformers for Language Modeling", section
    4.2.

    Examples
    --------
    >>> relu_squared(np.array([-1.0, 3.0]))[0]
    array([0., 9.])
    """
    positive, saved_relu = relu(x)
    y = positive * positive

    saved = (positive, saved_relu)
    return y, saved


def relu_squared_backward(dy, saved):
    r"""The gradient of `relu_squared`.

    .. math:: \bar{x} = 2 \max(0, x)\, \bar{y}

    Returns
    -------
    dx : ndarray, shape of `x`
    """
    positive, saved_relu = saved

    # y = positive * positive
    dpositive = 2 * positive * dy

    # positive = relu(x)
    return relu_backward(dpositive, saved_relu)
