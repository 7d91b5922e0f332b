"""The GRU cell: two gates, and no memory in addition to the output, unlike the LSTM.

Here the reset gate multiplies the product with the recurrent weight, as in cuDNN and PyTorch, so
that a time step has a single product. `gru_reset_before` has the form of the paper.
"""

import numpy as np

from numformer.checks import check_array
from numformer.functional.activations.sigmoid import sigmoid, sigmoid_backward
from numformer.functional.linear import linear, linear_backward
from numformer.functional.recurrent.rnn import check_cell


def gru_cell(x, state, input_weight, recurrent_weight, bias=None, recurrent_bias=None):
    r"""Propose a new state, then interpolate between the old state and the proposal.

    The reset gate r can hide the old state from the proposal n; the update gate z is the fraction
    of the old state that is kept.

    .. math::

        (r, z) = \sigma(a_{1,2} + h U_{1,2}), \qquad a = x W + b

    .. math::

        n = \tanh\left( a_3 + r\, (h U_3 + b_h) \right), \qquad h' = z h + (1 - z)\, n

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
    recurrent_bias : ndarray, shape (F,), optional
        b_h, which the reset gate multiplies too.

    Returns
    -------
    state : ndarray, shape (B, F)
        h', which is also the output of the cell.
    saved : tuple
        For `gru_cell_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision, or their widths do not fit.

    See Also
    --------
    gru_cell_reset_before : the cell of Cho et al. (2014).

    References
    ----------
    Cho et al. (2014), "Learning Phrase Representations using RNN Encoder-Decoder", eq. 5 to 8, with
    the reset gate after the product. z is the fraction of the old state, as there; Chung et al.
    (2014) have 1 - z in its place.

    Examples
    --------
    >>> keep = np.array([0.0, 9.0, 0.0])             # the update gate open for the old state
    >>> x, state = np.ones((1, 1)), np.array([[0.5]])
    >>> gru_cell(x, state, np.ones((1, 3)), np.zeros((1, 3)), keep)[0].round(3)
    array([[0.5]])
    """
    check_cell("gru_cell", x, state, input_weight, recurrent_weight, bias, gates=3)
    if recurrent_bias is not None:
        check_array("gru_cell", "recurrent_bias", recurrent_bias, "(F,)", recurrent_weight.dtype,
                    F=len(recurrent_weight))
    a, saved_input = linear(x, input_weight, bias)                   # (B, 3F)
    after, saved_step = gru_step(a, state, recurrent_weight, recurrent_bias)

    saved = (saved_input, saved_step, recurrent_weight, recurrent_bias is not None)
    return after, saved


def gru_cell_backward(dstate, saved):
    r"""The gradient of `gru_cell`.

    .. math::

        \bar{n} = \bar{h'} (1 - z), \quad \bar{z} = \bar{h'} (h - n), \quad
        \bar{a}_3 = \bar{n} (1 - n^2), \quad \bar{r} = \bar{a}_3\, (h U_3 + b_h)

    .. math::

        \bar{a}_{1,2} = \left( \bar{r}\, r (1 - r),\; \bar{z}\, z (1 - z) \right), \qquad
        \bar{h} = \bar{h'} z + \bar{a}_{1,2} U_{1,2}^\top + (r \bar{a}_3)\, U_3^\top

    Returns
    -------
    dx : ndarray, shape (B, C)
    dstate : ndarray, shape (B, F)
        With respect to the previous state.
    dinput_weight : ndarray, shape (C, 3F)
    drecurrent_weight : ndarray, shape (F, 3F)
    dbias : ndarray, shape (3F,), or None where there was no bias
    drecurrent_bias : ndarray, shape (F,), only where there was one
    """
    saved_input, saved_step, recurrent_weight, biased = saved

    # after = gru_step(a, state, recurrent_weight, recurrent_bias)
    da, dbefore = gru_step_backward(dstate, saved_step, recurrent_weight)
    drecurrent_weight, drecurrent_bias = gru_weight_gradients(da, *state_and_reset(saved_step))

    # a = linear(x, input_weight, bias)
    dx, dinput_weight, dbias = linear_backward(da, saved_input)
    gradients = dx, dbefore, dinput_weight, drecurrent_weight, dbias
    return (*gradients, drecurrent_bias) if biased else gradients


def gru_step(a, state, recurrent_weight, recurrent_bias):
    """`gru_cell` from a = x W + b, shape (B, 3F)."""
    F = len(recurrent_weight)
    p = state @ recurrent_weight                                     # (B, 3F)
    gates, saved_gates = sigmoid(a[:, :2 * F] + p[:, :2 * F])
    r, z = gates[:, :F], gates[:, F:]                                # (B, F)
    projected = p[:, 2 * F:] if recurrent_bias is None else p[:, 2 * F:] + recurrent_bias
    n = np.tanh(a[:, 2 * F:] + r * projected)
    after = z * state + (1 - z) * n

    saved = (state, gates, saved_gates, projected, n)
    return after, saved


def gru_step_backward(dstate, saved, recurrent_weight):
    """Gradients of a and of the state: one step of backpropagation through time.

    Those of the weights are from `gru_weight_gradients`: a loop over time calls it once.
    """
    state, gates, saved_gates, projected, n = saved
    F = state.shape[1]
    r, z = gates[:, :F], gates[:, F:]

    # after = z * state + (1 - z) * n
    dn, dz, dbefore = dstate * (1 - z), dstate * (state - n), dstate * z

    # n = tanh(a[:, 2 * F:] + r * projected)
    dcandidate = dn * (1 - n * n)
    dr = dcandidate * projected

    # projected = state @ recurrent_weight[:, 2 * F:] + recurrent_bias
    dbefore = dbefore + (dcandidate * r) @ recurrent_weight[:, 2 * F:].T

    # gates = sigmoid(a[:, :2 * F] + state @ recurrent_weight[:, :2 * F])
    dgates = sigmoid_backward(np.concatenate([dr, dz], axis=1), saved_gates)
    da = np.concatenate([dgates, dcandidate], axis=1)
    return da, dbefore + dgates @ recurrent_weight[:, :2 * F].T


def gru_weight_gradients(da, state, reset):
    """(drecurrent_weight, drecurrent_bias) from the da of any number of time steps, (N, 3F).

    The gradient of the recurrent bias is computed whether there is one or not.
    """
    dgates, dcandidate = da[:, :2 * state.shape[1]], da[:, 2 * state.shape[1]:]

    # ... a[:, 2 * F:] + reset * (state @ recurrent_weight[:, 2 * F:] + recurrent_bias)
    dprojected = dcandidate * reset
    return state.T @ np.concatenate([dgates, dprojected], axis=1), dprojected.sum(axis=0)


def state_and_reset(saved):
    """From what a step saved: the state before it and its reset gate, both (B, F)."""
    state, gates = saved[:2]
    return state, gates[:, :state.shape[1]]
