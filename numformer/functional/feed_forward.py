"""The feed-forward of a Transformer block: two linear maps with a nonlinearity between them."""

from numformer.checks import check_arrays, check_choice
from numformer.functional.activations.table import ACTIVATIONS
from numformer.functional.linear import linear, linear_backward


def feed_forward(x, hidden_weight, hidden_bias, output_weight, output_bias, activation="gelu"):
    r"""Map every vector to a wide hidden layer and back.

    .. math:: h = x W_1 + b_1, \qquad a = f(h), \qquad y = a W_2 + b_2

    Parameters
    ----------
    x : ndarray, shape (..., C)
    hidden_weight : ndarray, shape (C, F)
        W_1.
    hidden_bias : ndarray, shape (F,), or None
    output_weight : ndarray, shape (F, E)
        W_2; E = C in a Transformer.
    output_bias : ndarray, shape (E,), or None
    activation : str, a name in `ACTIVATIONS`
        f.

    Returns
    -------
    y : ndarray, shape (..., E)
    saved : tuple
        For `feed_forward_backward`.

    Raises
    ------
    ValueError, TypeError
        If the activation is unknown, or the arrays are not floats of one precision that fit.

    References
    ----------
    Vaswani et al. (2017), "Attention Is All You Need", eq. 2.

    Examples
    --------
    >>> import numpy as np
    >>> weight = np.array([[1.0, -1.0]])                             # |x| = relu(x) + relu(-x)
    >>> feed_forward(np.array([[-3.0], [2.0]]), weight, None, np.ones((2, 1)), None, "relu")[0]
    array([[3.],
           [2.]])
    """
    check_feed_forward("feed_forward", x, hidden_weight, hidden_bias, output_weight, output_bias,
                       activation)
    f, f_backward = ACTIVATIONS[activation]
    h, saved_hidden = linear(x, hidden_weight, hidden_bias)          # (..., F)
    a, saved_activation = f(h)
    y, saved_output = linear(a, output_weight, output_bias)          # (..., E)

    saved = (saved_hidden, f_backward, saved_activation, saved_output)
    return y, saved


def feed_forward_backward(dy, saved):
    r"""The gradient of `feed_forward`: back through its three steps.

    .. math:: \bar{a} = \bar{y} W_2^\top, \qquad \bar{h} = \bar{a} \odot f'(h), \qquad
              \bar{x} = \bar{h} W_1^\top

    .. math:: \bar{W}_2 = a^\top \bar{y}, \qquad \bar{b}_2 = \sum_n \bar{y}_n, \qquad
              \bar{W}_1 = x^\top \bar{h}, \qquad \bar{b}_1 = \sum_n \bar{h}_n

    Returns
    -------
    dx : ndarray, shape (..., C)
    dhidden_weight, dhidden_bias, doutput_weight, doutput_bias : ndarray
        None for a bias that was None.
    """
    saved_hidden, f_backward, saved_activation, saved_output = saved

    # y = linear(a, output_weight, output_bias)
    da, doutput_weight, doutput_bias = linear_backward(dy, saved_output)

    # a = f(h)
    dh = f_backward(da, saved_activation)

    # h = linear(x, hidden_weight, hidden_bias)
    dx, dhidden_weight, dhidden_bias = linear_backward(dh, saved_hidden)
    return dx, dhidden_weight, dhidden_bias, doutput_weight, doutput_bias


def check_feed_forward(owner, x, hidden_weight, hidden_bias, output_weight, output_bias,
                       activation):
    """Check the arguments of `feed_forward`, and those that `gated_feed_forward` has, too."""
    check_choice(owner, "activation", activation, ACTIVATIONS)
    check_arrays(owner, ("hidden_weight", hidden_weight, "(C, F)"),
                 ("output_weight", output_weight, "(F, E)"), ("x", x, "(..., C)"),
                 ("hidden_bias", hidden_bias, "(F,) or None"),
                 ("output_bias", output_bias, "(E,) or None"))
