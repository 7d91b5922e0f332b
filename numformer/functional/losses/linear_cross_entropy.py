"""The head of a language model and its loss in one: logits need not exist all at once."""

import numpy as np

from numformer.checks import check_arrays
from numformer.functional.linear import linear, linear_backward
from numformer.functional.losses.cross_entropy import (
    IGNORE_INDEX, cross_entropy, cross_entropy_backward)


def linear_cross_entropy(x, weight, targets, ignore_index=IGNORE_INDEX, label_smoothing=0.0,
                         z_loss=0.0):
    r"""Mean cross-entropy of the logits that a table of classes gives each vector.

    .. math:: z_n = W x_n, \qquad L = \mathrm{cross\_entropy}(z, y)

    The compiled version computes a slice of the vocabulary at a time. Each slice changes a running
    maximum and a running sum of exponentials, as keys do in tiled attention, and the backward
    computes the slices again. So memory for the logits does not grow with the vocabulary.

    Parameters
    ----------
    x : ndarray, shape (..., C)
    weight : ndarray, shape (V, C)
        W: a vector for each class, such as the embedding of a token.
    targets : ndarray of int, shape (...)
        In 0 .. V-1, or `ignore_index`: then the vector counts as 0, whatever it holds.
    ignore_index, label_smoothing, z_loss
        As in `cross_entropy`.

    Returns
    -------
    loss : scalar of the dtype of `x`, nats a target
    saved : tuple
        For `linear_cross_entropy_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays do not fit, an id is out of range, or no target counts.

    References
    ----------
    Wijmans et al. (2025), "Cut Your Losses in Large-Vocabulary Language Models", section 4.

    Examples
    --------
    >>> import numpy as np
    >>> classes = np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    >>> loss, _ = linear_cross_entropy(np.array([[1.0, 0.0]]), classes, np.array([0]))
    >>> round(float(loss), 3)                                        # log(e^2 + 1 + 1) - 2
    0.24
    """
    check_head(x, weight)
    if np.shape(targets) == x.shape[:-1]:            # a gradient of 0 times NaN would be NaN in dW
        x = np.where(np.not_equal(targets, ignore_index)[..., None], x, 0)
    logits, saved_logits = linear(x, weight.T)                       # (..., V)
    loss, saved_loss = cross_entropy(logits, targets, ignore_index, label_smoothing, z_loss)

    saved = (saved_logits, saved_loss)
    return loss, saved


def linear_cross_entropy_backward(dloss, saved):
    r"""The gradient of `linear_cross_entropy`.

    .. math:: \bar{x}_n = W^\top \bar{z}_n, \qquad \bar{W} = \sum_n \bar{z}_n x_n^\top

    with the gradient of the logits, :math:`\bar{z}_n`, from `cross_entropy_backward`.

    Parameters
    ----------
    dloss : float

    Returns
    -------
    dx : ndarray, shape (..., C)
    dweight : ndarray, shape (V, C)
    """
    saved_logits, saved_loss = saved

    # loss = cross_entropy(logits, targets)
    dlogits = cross_entropy_backward(dloss, saved_loss)

    # logits = linear(x, weight.T)
    dx, dtransposed, _ = linear_backward(dlogits, saved_logits)
    return dx, dtransposed.T


def check_head(x, weight):
    """Check the arrays of `linear_cross_entropy`."""
    check_arrays("linear_cross_entropy", ("weight", weight, "(V, C)"), ("x", x, "(..., C)"))
