"""Gated linear units: an activation of one projection multiplies another projection."""

from numformer.checks import check_array, check_choice
from numformer.functional.activations.table import ACTIVATIONS


def gated_linear_unit(g, h, activation="silu"):
    r"""Multiply the hidden units by their gates.

    .. math:: y = f(g) \odot h

    Parameters
    ----------
    g : ndarray, any shape
        The inputs of the gates.
    h : ndarray, shape of `g`
        The hidden units.
    activation : str, a name in `ACTIVATIONS`
        f. SiLU gives SwiGLU, GELU gives GEGLU.

    Returns
    -------
    y : ndarray, shape of `g`
    saved : tuple
        For `gated_linear_unit_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision and shape, or the activation is unknown.

    References
    ----------
    Shazeer (2020), "GLU Variants Improve Transformer", eq. 5.

    Examples
    --------
    >>> import numpy as np
    >>> gated_linear_unit(np.array([-1.0, 2.0]), np.array([5.0, 5.0]), "relu")[0]
    array([ 0., 10.])
    """
    check_gated(g, h, activation)
    f, f_backward = ACTIVATIONS[activation]
    a, saved_activation = f(g)
    y = a * h

    saved = (a, h, f_backward, saved_activation)
    return y, saved


def gated_linear_unit_backward(dy, saved):
    r"""The gradient of `gated_linear_unit`: the product rule.

    .. math:: \bar{h} = \bar{y} \odot f(g), \qquad \bar{g} = \bar{y} \odot h \odot f'(g)

    Returns
    -------
    dg, dh : ndarray, shape of `dy`
    """
    a, h, f_backward, saved_activation = saved

    # y = a * h
    da, dh = dy * h, dy * a

    # a = f(g)
    return f_backward(da, saved_activation), dh


def check_gated(g, h, activation):
    """Check the arguments of `gated_linear_unit`."""
    check_choice("gated_linear_unit", "activation", activation, ACTIVATIONS)
    check_array("gated_linear_unit", "g", g, "(...)")
    check_array("gated_linear_unit", "h", h, "(...)", g.dtype)
    if g.shape != h.shape:
        raise ValueError(f"gated_linear_unit: g of shape {g.shape} and h of shape {h.shape} must "
                         "have the same shape.")
