"""The affine map: every learned projection of a Transformer is this function."""

from numformer.checks import check_arrays


def linear(x, weight, bias=None):
    r"""Mix the coordinates of every vector: each output coordinate is a weighted sum of the inputs.

    .. math:: y = x W + b

    Parameters
    ----------
    x : ndarray, shape (..., C)
    weight : ndarray, shape (C, F)
        Input width by output width, as in the equation; PyTorch stores the transpose.
    bias : ndarray, shape (F,), optional

    Returns
    -------
    y : ndarray, shape (..., F)
    saved : tuple
        For `linear_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision, or their widths do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> weight, bias = np.array([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]]), np.array([0.0, 0.0, 0.5])
    >>> linear(np.array([[1.0, 2.0]]), weight, bias)[0]
    array([[1. , 2. , 4.5]])
    """
    check_linear(x, weight, bias)
    vectors = x.reshape(-1, x.shape[-1])                             # (N, C): one product for all
    y = vectors @ weight
    if bias is not None:
        y = y + bias
    y = y.reshape(*x.shape[:-1], weight.shape[1])                    # (..., F)

    saved = (x, weight, bias is not None)
    return y, saved


def linear_backward(dy, saved):
    r"""The gradient of `linear`: two more matrix products, each with one factor transposed.

    .. math:: \bar{x} = \bar{y} W^\top, \qquad \bar{W} = x^\top \bar{y}, \qquad
              \bar{b} = \sum_n \bar{y}_n

    Returns
    -------
    dx : ndarray, shape (..., C)
    dweight : ndarray, shape (C, F)
    dbias : ndarray, shape (F,), or None where there was no bias
    """
    x, weight, biased = saved
    vectors = x.reshape(-1, x.shape[-1])                             # (N, C)
    dvectors = dy.reshape(-1, dy.shape[-1])                          # (N, F)

    # y = y + bias
    dbias = dvectors.sum(axis=0) if biased else None

    # y = vectors @ weight
    dx = dvectors @ weight.T
    dweight = vectors.T @ dvectors
    return dx.reshape(x.shape), dweight, dbias


def linear_backward_accumulate(dy, saved, weight_grad, bias_grad=None):
    r"""`linear_backward` that adds the parameters' gradients to those of a layer, in place.

    .. math:: G_W \leftarrow G_W + \bar{W}, \qquad G_b \leftarrow G_b + \bar{b}

    The compiled version lets the matrix product add to `weight_grad` directly, so that `dweight` is
    never an array of its own.

    Parameters
    ----------
    dy : ndarray, shape (..., F)
    saved : tuple
        From `linear`.
    weight_grad : ndarray, shape (C, F), or None
        Modified in place. A transposed view works too, as for a weight tied to an embedding. None
        for a frozen weight, whose gradient is not computed.
    bias_grad : ndarray, shape (F,), optional
        Modified in place; None where there was no bias.

    Returns
    -------
    dx : ndarray, shape (..., C)

    Examples
    --------
    >>> import numpy as np
    >>> weight_grad = np.full((2, 1), 10.0)
    >>> _, saved = linear(np.array([[1.0, 2.0]]), np.ones((2, 1)))
    >>> linear_backward_accumulate(np.ones((1, 1)), saved, weight_grad)
    array([[1., 1.]])
    >>> weight_grad
    array([[11.],
           [12.]])
    """
    if weight_grad is None:
        return _without_weight(dy, saved, bias_grad)
    dx, dweight, dbias = linear_backward(dy, saved)
    weight_grad += dweight
    if bias_grad is not None:
        bias_grad += dbias
    return dx


def _without_weight(dy, saved, bias_grad):
    """dx of a frozen weight: one product instead of two."""
    x, weight, _ = saved
    dvectors = dy.reshape(-1, dy.shape[-1])                          # (N, F)
    if bias_grad is not None:
        bias_grad += dvectors.sum(axis=0)
    return (dvectors @ weight.T).reshape(x.shape)


def check_linear(x, weight, bias):
    """Check the arguments of `linear`."""
    check_arrays("linear", ("weight", weight, "(C, F)"), ("x", x, "(..., C)"),
                 ("bias", bias, "(F,) or None"))
