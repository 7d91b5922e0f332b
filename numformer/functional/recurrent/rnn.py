"""The plain recurrent cell: one time step of Elman's network.

The products with the inputs need no state, so a layer computes them for all time steps at once;
`rnn_step` is the rest of the cell, which must wait for the previous step.
"""

import numpy as np

from numformer.checks import check_array
from numformer.functional.linear import linear, linear_backward


def rnn_cell(x, state, input_weight, recurrent_weight, bias=None):
    r"""The next state: a tanh of the new input and the old state, linearly mixed.

    .. math:: h' = \tanh(x W + h U + b)

    Parameters
    ----------
    x : ndarray, shape (B, C)
        The input of one time step.
    state : ndarray, shape (B, F)
        h, the output of the previous time step; zeros at the start.
    input_weight : ndarray, shape (C, F)
        W.
    recurrent_weight : ndarray, shape (F, F)
        U.
    bias : ndarray, shape (F,), optional

    Returns
    -------
    state : ndarray, shape (B, F)
        h', which is also the output of the cell.
    saved : tuple
        For `rnn_cell_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision, or their widths do not fit.

    References
    ----------
    Elman (1990), "Finding Structure in Time", figure 2; there the nonlinearity is the logistic
    function.

    Examples
    --------
    >>> h = np.zeros((1, 1))
    >>> for x in (1.0, 0.0, 0.0):
    ...     h, _ = rnn_cell(np.array([[x]]), h, np.array([[1.0]]), np.array([[0.5]]))
    ...     print(h.round(3))
    [[0.762]]
    [[0.363]]
    [[0.18]]
    """
    check_cell("rnn_cell", x, state, input_weight, recurrent_weight, bias)
    a, saved_input = linear(x, input_weight, bias)                   # (B, F)
    after, saved_step = rnn_step(a, state, recurrent_weight)

    saved = (saved_input, saved_step, state, recurrent_weight)
    return after, saved


def rnn_cell_backward(dstate, saved):
    r"""The gradient of `rnn_cell`.

    .. math::

        \bar{a} = \bar{h'} (1 - h'^2), \qquad \bar{h} = \bar{a} U^\top, \qquad
        \bar{U} = h^\top \bar{a}, \qquad \bar{x} = \bar{a} W^\top, \qquad
        \bar{W} = x^\top \bar{a}, \qquad \bar{b} = \sum_n \bar{a}_n

    Returns
    -------
    dx : ndarray, shape (B, C)
    dstate : ndarray, shape (B, F)
        With respect to the previous state.
    dinput_weight : ndarray, shape (C, F)
    drecurrent_weight : ndarray, shape (F, F)
    dbias : ndarray, shape (F,), or None where there was no bias
    """
    saved_input, saved_step, state, recurrent_weight = saved

    # after = rnn_step(a, state, recurrent_weight)
    da, dbefore = rnn_step_backward(dstate, saved_step, recurrent_weight)
    drecurrent_weight = state.T @ da

    # a = linear(x, input_weight, bias)
    dx, dinput_weight, dbias = linear_backward(da, saved_input)
    return dx, dbefore, dinput_weight, drecurrent_weight, dbias


def rnn_step(a, state, recurrent_weight):
    """`rnn_cell` from a = x W + b, shape (B, F)."""
    after = np.tanh(a + state @ recurrent_weight)

    saved = (after,)
    return after, saved


def rnn_step_backward(dstate, saved, recurrent_weight):
    """Gradients of a and of the state: one step of backpropagation through time.

    That of the weight, U, is h' da: a loop over time computes it once for all steps.
    """
    after, = saved

    # after = tanh(a + state @ recurrent_weight)
    da = dstate * (1 - after * after)
    return da, da @ recurrent_weight.T


def check_cell(owner, x, state, input_weight, recurrent_weight, bias, gates=1, parts=1):
    """Check the arguments of a cell whose weights have `gates` blocks of width F.

    Its state has `parts` of them.
    """
    F = check_array(owner, "recurrent_weight", recurrent_weight, "(F, _)")["F"]
    dtype = recurrent_weight.dtype
    wide, held = (f"{n}F" if n > 1 else "F" for n in (gates, parts))
    widths = {"F": F, wide: gates * F, held: parts * F}
    check_array(owner, "recurrent_weight", recurrent_weight, f"(F, {wide})", **widths)
    C = check_array(owner, "input_weight", input_weight, f"(C, {wide})", dtype, **widths)["C"]
    B = check_array(owner, "x", x, "(B, C)", dtype, C=C)["B"]
    check_array(owner, "state", state, f"(B, {held})", dtype, B=B, **widths)
    if bias is not None:
        check_array(owner, "bias", bias, f"({wide},)", dtype, **widths)
