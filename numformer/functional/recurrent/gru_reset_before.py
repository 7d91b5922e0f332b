"""The GRU cell of the paper: the reset gate multiplies the state, before the recurrent weight."""

import numpy as np

from numformer.functional.activations.sigmoid import sigmoid, sigmoid_backward
from numformer.functional.linear import linear, linear_backward
from numformer.functional.recurrent.gru import state_and_reset
from numformer.functional.recurrent.rnn import check_cell


def gru_cell_reset_before(x, state, input_weight, recurrent_weight, bias=None):
    r"""`gru_cell` with the reset gate before the product with the recurrent weight.

    .. math::

        (r, z) = \sigma(a_{1,2} + h U_{1,2}), \qquad a = x W + b

    .. math::

        n = \tanh\left( a_3 + (r h)\, U_3 \right), \qquad h' = z h + (1 - z)\, n

    Parameters
    ----------
    x : ndarray, shape (B, C)
        The input of one time step.
    state : ndarray, shape (B, F)
        h, the output of the previous time step; zeros at the start.
    input_weight : ndarray, shape (C, 3F)
        W: the blocks of reset gate r, update gate z and candidate n.
    recurrent_weight : ndarray, shape (F, 3F)
        U, in the same order.
    bias : ndarray, shape (3F,), optional
        b, in the same order.

    Returns
    -------
    state : ndarray, shape (B, F)
        h', which is also the output of the cell.
    saved : tuple
        For `gru_cell_reset_before_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision, or their widths do not fit.

    References
    ----------
    Cho et al. (2014), "Learning Phrase Representations using RNN Encoder-Decoder", eq. 5 to 8.

    Examples
    --------
    >>> keep = np.array([0.0, 9.0, 0.0])             # the update gate open for the old state
    >>> x, state = np.ones((1, 1)), np.array([[0.5]])
    >>> gru_cell_reset_before(x, state, np.ones((1, 3)), np.zeros((1, 3)), keep)[0].round(3)
    array([[0.5]])
    """
    check_cell("gru_cell_reset_before", x, state, input_weight, recurrent_weight, bias, gates=3)
    a, saved_input = linear(x, input_weight, bias)                   # (B, 3F)
    after, saved_step = gru_step_reset_before(a, state, recurrent_weight)

    saved = (saved_input, saved_step, recurrent_weight)
    return after, saved


def gru_cell_reset_before_backward(dstate, saved):
    r"""The gradient of `gru_cell_reset_before`.

    .. math::

        \bar{n} = \bar{h'} (1 - z), \quad \bar{z} = \bar{h'} (h - n), \quad
        \bar{a}_3 = \bar{n} (1 - n^2), \quad \bar{r} = (\bar{a}_3 U_3^\top)\, h

    .. math::

        \bar{a}_{1,2} = \left( \bar{r}\, r (1 - r),\; \bar{z}\, z (1 - z) \right), \qquad
        \bar{h} = \bar{h'} z + \bar{a}_{1,2} U_{1,2}^\top + r\, (\bar{a}_3 U_3^\top)

    Returns
    -------
    dx : ndarray, shape (B, C)
    dstate : ndarray, shape (B, F)
        With respect to the previous state.
    dinput_weight : ndarray, shape (C, 3F)
    drecurrent_weight : ndarray, shape (F, 3F)
    dbias : ndarray, shape (3F,), or None where there was no bias
    """
    saved_input, saved_step, recurrent_weight = saved

    # after = gru_step_reset_before(a, state, recurrent_weight)
    da, dbefore = gru_step_reset_before_backward(dstate, saved_step, recurrent_weight)
    drecurrent_weight = gru_weight_gradient_reset_before(da, *state_and_reset(saved_step))

    # a = linear(x, input_weight, bias)
    dx, dinput_weight, dbias = linear_backward(da, saved_input)
    return dx, dbefore, dinput_weight, drecurrent_weight, dbias


def gru_step_reset_before(a, state, recurrent_weight):
    """`gru_cell_reset_before` from a = x W + b, shape (B, 3F)."""
    F = len(recurrent_weight)
    gates, saved_gates = sigmoid(a[:, :2 * F] + state @ recurrent_weight[:, :2 * F])
    r, z = gates[:, :F], gates[:, F:]                                # (B, F)
    n = np.tanh(a[:, 2 * F:] + (r * state) @ recurrent_weight[:, 2 * F:])
    after = z * state + (1 - z) * n

    saved = (state, gates, saved_gates, n)
    return after, saved


def gru_step_reset_before_backward(dstate, saved, recurrent_weight):
    """Gradients of a and of the state: one step of backpropagation through time."""
    state, gates, saved_gates, n = saved
    F = state.shape[1]
    r, z = gates[:, :F], gates[:, F:]

    # after = z * state + (1 - z) * n
    dn, dz, dbefore = dstate * (1 - z), dstate * (state - n), dstate * z

    # n = tanh(a[:, 2 * F:] + (r * state) @ recurrent_weight[:, 2 * F:])
    dcandidate = dn * (1 - n * n)
    dproduct = dcandidate @ recurrent_weight[:, 2 * F:].T
    dr = dproduct * state
    dbefore = dbefore + dproduct * r

    # gates = sigmoid(a[:, :2 * F] + state @ recurrent_weight[:, :2 * F])
    dgates = sigmoid_backward(np.concatenate([dr, dz], axis=1), saved_gates)
    da = np.concatenate([dgates, dcandidate], axis=1)
    return da, dbefore + dgates @ recurrent_weight[:, :2 * F].T


def gru_weight_gradient_reset_before(da, state, reset):
    """drecurrent_weight from the da of any number of time steps, (N, 3F)."""
    dgates, dcandidate = da[:, :2 * state.shape[1]], da[:, 2 * state.shape[1]:]

    # ... a[:, 2 * F:] + (reset * state) @ recurrent_weight[:, 2 * F:]
    return np.concatenate([state.T @ dgates, (reset * state).T @ dcandidate], axis=1)
