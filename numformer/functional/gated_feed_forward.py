"""The gated feed-forward: a hidden layer whose units are multiplied by gates, as in LLaMA."""

from numformer.checks import check_array
from numformer.functional.activations.gated import gated_linear_unit, gated_linear_unit_backward
from numformer.functional.feed_forward import check_feed_forward
from numformer.functional.linear import linear, linear_backward


def gated_feed_forward(x, gate_weight, gate_bias, hidden_weight, hidden_bias, output_weight,
                       output_bias, activation="silu"):
    r"""Map every vector to gates and hidden units, multiply them, and map the products back.

    .. math:: g = x W_1 + b_1, \qquad h = x W_2 + b_2, \qquad a = f(g) \odot h, \qquad
              y = a W_3 + b_3

    Parameters
    ----------
    x : ndarray, shape (..., C)
    gate_weight, hidden_weight : ndarray, shape (C, F)
        W_1 and W_2.
    gate_bias, hidden_bias : ndarray, shape (F,), or None
    output_weight : ndarray, shape (F, E)
        W_3; E = C in a Transformer.
    output_bias : ndarray, shape (E,), or None
    activation : str, a name in `ACTIVATIONS`
        f. SiLU gives SwiGLU, GELU gives GEGLU.

    Returns
    -------
    y : ndarray, shape (..., E)
    saved : tuple
        For `gated_feed_forward_backward`.

    Raises
    ------
    ValueError, TypeError
        If the activation is unknown, or the arrays are not floats of one precision that fit.

    References
    ----------
    Shazeer (2020), "GLU Variants Improve Transformer", eq. 6.

    Examples
    --------
    >>> import numpy as np
    >>> one = np.ones((1, 1))
    >>> gated_feed_forward(np.array([[-3.0], [2.0]]), one, None, one, None, one, None, "relu")[0]
    array([[0.],
           [4.]])
    """
    check_gated_feed_forward(x, gate_weight, gate_bias, hidden_weight, hidden_bias, output_weight,
                             output_bias, activation)
    g, saved_gate = linear(x, gate_weight, gate_bias)                # (..., F)
    h, saved_hidden = linear(x, hidden_weight, hidden_bias)          # (..., F)
    a, saved_product = gated_linear_unit(g, h, activation)
    y, saved_output = linear(a, output_weight, output_bias)          # (..., E)

    saved = (saved_gate, saved_hidden, saved_product, saved_output)
    return y, saved


def gated_feed_forward_backward(dy, saved):
    r"""The gradient of `gated_feed_forward`: x has two paths, through the gates and the units.

    .. math:: \bar{a} = \bar{y} W_3^\top, \qquad \bar{h} = \bar{a} \odot f(g), \qquad
              \bar{g} = \bar{a} \odot h \odot f'(g), \qquad
              \bar{x} = \bar{g} W_1^\top + \bar{h} W_2^\top

    .. math:: \bar{W}_3 = a^\top \bar{y}, \qquad \bar{W}_1 = x^\top \bar{g}, \qquad
              \bar{W}_2 = x^\top \bar{h}

    The gradient of a bias is the sum of those of its rows, as in `linear_backward`.

    Returns
    -------
    dx : ndarray, shape (..., C)
    dgate_weight, dgate_bias, dhidden_weight, dhidden_bias, doutput_weight, doutput_bias : ndarray
        None for a bias that was None.
    """
    saved_gate, saved_hidden, saved_product, saved_output = saved

    # y = linear(a, output_weight, output_bias)
    da, *doutput = linear_backward(dy, saved_output)

    # a = f(g) * h
    dg, dh = gated_linear_unit_backward(da, saved_product)

    # g = linear(x, gate_weight, gate_bias);  h = linear(x, hidden_weight, hidden_bias)
    dx_gate, *dgate = linear_backward(dg, saved_gate)
    dx_hidden, *dhidden = linear_backward(dh, saved_hidden)
    return dx_gate + dx_hidden, *dgate, *dhidden, *doutput


def check_gated_feed_forward(x, gate_weight, gate_bias, hidden_weight, hidden_bias, output_weight,
                             output_bias, activation):
    """Check the arguments of `gated_feed_forward`."""
    owner = "gated_feed_forward"
    check_feed_forward(owner, x, hidden_weight, hidden_bias, output_weight, output_bias, activation)
    C, F = hidden_weight.shape
    check_array(owner, "gate_weight", gate_weight, "(C, F)", x.dtype, C=C, F=F)
    if gate_bias is not None:
        check_array(owner, "gate_bias", gate_bias, "(F,)", x.dtype, F=F)
