"""The GRU cell: two gates and no memory beside the output, where the LSTM has three gates and a memory.

Where the reset gate stands is a switch: behind the product with the recurrent weight (`reset_after=True`, the default here, in
cuDNN and in PyTorch), so that a time step has one product; or before it, as in the paper.
"""

import numpy as np

from numformer.checks import check_array
from numformer.functional.activations import sigmoid, sigmoid_backward
from numformer.functional.linear import linear, linear_backward
from numformer.functional.rnn import check_cell


def gru_cell(x, state, input_weight, recurrent_weight, bias=None, recurrent_bias=None, reset_after=True):
    r"""Propose a new state, from which the reset gate may hide the old one, and move as far towards it as the update gate lets.

    .. math::

        (r, z) = \sigma(a_{1,2} + h U_{1,2}), \qquad a = x W + b, \qquad h' = z h + (1 - z)\, n

    .. math:: n = \tanh\left( a_3 + r\, (h U_3 + b_h) \right) \;\text{ or }\; n = \tanh\left( a_3 + (r h)\, U_3 \right)

    Parameters
    ----------
    x : ndarray, shape (B, C)
        One time step.
    state : ndarray, shape (B, F)
        h, what the cell gave at the time step before; zeros at the start.
    input_weight : ndarray, shape (C, 3F)
        W: reset gate r, update gate z and candidate n side by side.
    recurrent_weight : ndarray, shape (F, 3F)
        U, in the same order.
    bias : ndarray, shape (3F,), optional
        Likewise.
    recurrent_bias : ndarray, shape (F,), optional
        b_h, which the reset gate hides too; only with `reset_after`, for elsewhere `bias` does its work.
    reset_after : bool
        Whether the reset gate stands behind the product with U (the first form of n) or before it (the second).

    Returns
    -------
    state : ndarray, shape (B, F)
        h', which is the cell's output too.
    saved : tuple
        For `gru_cell_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision, their widths do not fit, or there is a recurrent bias without `reset_after`.

    References
    ----------
    Cho et al. (2014), "Learning Phrase Representations using RNN Encoder-Decoder", eq. 5 to 8: the reset gate before the
    product; z is the share of the old state, as here. (Chung et al. (2014) have 1 - z in its place.)

    Examples
    --------
    >>> keep = np.array([0.0, 9.0, 0.0])                              # the update gate open for the old state
    >>> gru_cell(np.ones((1, 1)), np.array([[0.5]]), np.ones((1, 3)), np.zeros((1, 3)), keep)[0].round(3)
    array([[0.5]])
    """
    check_cell("gru_cell", x, state, input_weight, recurrent_weight, bias, gates=3)
    if recurrent_bias is not None:
        check_array("gru_cell", "recurrent_bias", recurrent_bias, "(F,)", recurrent_weight.dtype, F=len(recurrent_weight))
        if not reset_after:
            raise ValueError("gru_cell: recurrent_bias needs reset_after=True; without, it is the same as the last third of bias.")
    a, saved_input = linear(x, input_weight, bias)                    # (B, 3F)
    after, saved_step = gru_step(a, state, recurrent_weight, recurrent_bias, reset_after)

    saved = (saved_input, saved_step, recurrent_weight, recurrent_bias is not None, reset_after)
    return after, saved


def gru_cell_backward(dstate, saved):
    r"""The gradient of `gru_cell`.

    .. math::

        \bar{n} = \bar{h'} (1 - z), \quad \bar{z} = \bar{h'} (h - n), \quad \bar{a}_3 = \bar{n} (1 - n^2), \quad
        \bar{r} = \bar{a}_3\, (h U_3 + b_h) \;\text{ or }\; \bar{r} = (\bar{a}_3 U_3^\top)\, h

    .. math::

        \bar{a}_{1,2} = \left( \bar{r}\, r (1 - r),\; \bar{z}\, z (1 - z) \right), \qquad
        \bar{h} = \bar{h'} z + \bar{a}_{1,2} U_{1,2}^\top
        + \left[ (r \bar{a}_3)\, U_3^\top \;\text{ or }\; r\, (\bar{a}_3 U_3^\top) \right]

    Returns
    -------
    dx : ndarray, shape (B, C)
    dstate : ndarray, shape (B, F)
        Of the state before.
    dinput_weight : ndarray, shape (C, 3F)
    drecurrent_weight : ndarray, shape (F, 3F)
    dbias : ndarray, shape (3F,), or None where there was no bias
    drecurrent_bias : ndarray, shape (F,), only where there was one
    """
    saved_input, saved_step, recurrent_weight, biased, reset_after = saved

    # after = gru_step(a, state, recurrent_weight, recurrent_bias, reset_after)
    da, dbefore = gru_step_backward(dstate, saved_step, recurrent_weight.T)
    drecurrent_weight, drecurrent_bias = gru_weight_gradients(da, *state_and_reset(saved_step), reset_after)

    # a = linear(x, input_weight, bias)
    dx, dinput_weight, dbias = linear_backward(da, saved_input)
    return (dx, dbefore, dinput_weight, drecurrent_weight, dbias) + ((drecurrent_bias,) if biased else ())


def gru_step(a, state, recurrent_weight, recurrent_bias, reset_after):
    """`gru_cell` from a = x W + b, shape (B, 3F)."""
    F = len(recurrent_weight)
    if reset_after:
        p = state @ recurrent_weight                                  # (B, 3F)
        gates, saved_gates = sigmoid(a[:, :2 * F] + p[:, :2 * F])
        r, z = gates[:, :F], gates[:, F:]                             # (B, F)
        seen = p[:, 2 * F:] if recurrent_bias is None else p[:, 2 * F:] + recurrent_bias
        n = np.tanh(a[:, 2 * F:] + r * seen)
    else:
        gates, saved_gates = sigmoid(a[:, :2 * F] + state @ recurrent_weight[:, :2 * F])
        r, z = gates[:, :F], gates[:, F:]
        seen = state
        n = np.tanh(a[:, 2 * F:] + (r * seen) @ recurrent_weight[:, 2 * F:])
    after = z * state + (1 - z) * n

    saved = (state, gates, saved_gates, seen, n, reset_after)
    return after, saved


def gru_step_backward(dstate, saved, turned):
    """(da, dstate) of `gru_step`, from the turned weight, (3F, F): a loop over time turns it once.

    The weights' own gradients are `gru_weight_gradients`, for all time steps at once.
    """
    state, gates, saved_gates, seen, n, reset_after = saved
    F = state.shape[1]
    r, z = gates[:, :F], gates[:, F:]

    # after = z * state + (1 - z) * n
    dn, dz, dbefore = dstate * (1 - z), dstate * (state - n), dstate * z

    # n = tanh(...)
    dcandidate = dn * (1 - n * n)
    if reset_after:
        # ... a[:, 2 * F:] + r * seen, where seen = state @ recurrent_weight[:, 2 * F:] + recurrent_bias
        dr = dcandidate * seen
        dbefore = dbefore + (dcandidate * r) @ turned[2 * F:]
    else:
        # ... a[:, 2 * F:] + (r * state) @ recurrent_weight[:, 2 * F:]
        dproduct = dcandidate @ turned[2 * F:]
        dr = dproduct * seen
        dbefore = dbefore + dproduct * r

    # gates = sigmoid(a[:, :2 * F] + state @ recurrent_weight[:, :2 * F])
    dgates = sigmoid_backward(np.concatenate([dr, dz], axis=1), saved_gates)
    return np.concatenate([dgates, dcandidate], axis=1), dbefore + dgates @ turned[:2 * F]


def gru_weight_gradients(da, state, reset, reset_after):
    """(drecurrent_weight, drecurrent_bias), the bias's as if there were one, from da of any number of time steps, (N, 3F)."""
    dgates, dcandidate = da[:, :2 * state.shape[1]], da[:, 2 * state.shape[1]:]
    if reset_after:
        # a[:, 2 * F:] + reset * (state @ recurrent_weight[:, 2 * F:] + recurrent_bias)
        dseen = dcandidate * reset
        return state.T @ np.concatenate([dgates, dseen], axis=1), dseen.sum(axis=0)
    # a[:, 2 * F:] + (reset * state) @ recurrent_weight[:, 2 * F:]
    return np.concatenate([state.T @ dgates, (reset * state).T @ dcandidate], axis=1), dcandidate.sum(axis=0)


def state_and_reset(saved):
    """Two of what a `gru_step` saved: the state before it and its reset gate, (B, F)."""
    state, gates = saved[:2]
    return state, gates[:, :state.shape[1]]
