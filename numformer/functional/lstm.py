"""The LSTM cell: a memory that is added to instead of overwritten, so that a gradient can travel far back through it."""

import numpy as np

from numformer.functional.activations import sigmoid, sigmoid_backward
from numformer.functional.linear import linear, linear_backward
from numformer.functional.rnn import check_cell


def lstm_cell(x, state, input_weight, recurrent_weight, bias=None):
    r"""Forget some of the memory, write something new into it, and show some of it: three gates say how much of each.

    .. math::

        (i, f, o) = \sigma(a_{1..3}), \quad g = \tanh(a_4), \qquad a = x W + h U + b, \qquad
        c' = f c + i g, \qquad h' = o \tanh(c')

    Parameters
    ----------
    x : ndarray, shape (B, C)
        One time step.
    state : ndarray, shape (B, 2F)
        h and c side by side: the output and the memory of the time step before; zeros at the start.
    input_weight : ndarray, shape (C, 4F)
        W: input gate i, forget gate f, output gate o and candidate g side by side. (cuDNN and PyTorch have i, f, g, o.)
    recurrent_weight : ndarray, shape (F, 4F)
        U, in the same order.
    bias : ndarray, shape (4F,), optional
        Likewise. A forget gate's bias of 1 or more makes the cell remember at first.

    Returns
    -------
    state : ndarray, shape (B, 2F)
        h' and c' side by side; h' is the cell's output.
    saved : tuple
        For `lstm_cell_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision, or their widths do not fit.

    References
    ----------
    Hochreiter and Schmidhuber (1997), "Long Short-Term Memory", section 4; the forget gate: Gers, Schmidhuber, Cummins (2000),
    "Learning to Forget", section 3. Without peepholes, as in most code since.

    Examples
    --------
    >>> remember = np.array([-9.0, 9.0, 9.0, 0.0])                    # write nothing, forget nothing, show all
    >>> state, _ = lstm_cell(np.ones((1, 1)), np.array([[0.0, 0.5]]), np.zeros((1, 4)), np.zeros((1, 4)), remember)
    >>> state.round(3)
    array([[0.462, 0.5  ]])
    """
    check_cell("lstm_cell", x, state, input_weight, recurrent_weight, bias, gates=4, parts=2)
    a, saved_input = linear(x, input_weight, bias)                    # (B, 4F)
    after, saved_step = lstm_step(a, state, recurrent_weight)

    saved = (saved_input, saved_step, state, recurrent_weight)
    return after, saved


def lstm_cell_backward(dstate, saved):
    r"""The gradient of `lstm_cell`. The memory's own path, from c' to c, has the forget gate alone on it.

    .. math::

        \bar{o} = \bar{h'} \tanh c', \quad \bar{c'} \mathrel{+}= \bar{h'} o\, (1 - \tanh^2 c'), \quad
        \bar{f} = \bar{c'} c, \quad \bar{i} = \bar{c'} g, \quad \bar{g} = \bar{c'} i, \quad \bar{c} = \bar{c'} f

    .. math::

        \bar{a} = \left( \bar{s}\, s (1 - s) \text{ for each gate } s,\; \bar{g} (1 - g^2) \right), \qquad
        \bar{h} = \bar{a} U^\top, \quad \bar{U} = h^\top \bar{a}

    Returns
    -------
    dx : ndarray, shape (B, C)
    dstate : ndarray, shape (B, 2F)
        Of the state before.
    dinput_weight : ndarray, shape (C, 4F)
    drecurrent_weight : ndarray, shape (F, 4F)
    dbias : ndarray, shape (4F,), or None where there was no bias
    """
    saved_input, saved_step, state, recurrent_weight = saved

    # after = lstm_step(a, state, recurrent_weight)
    da, dbefore = lstm_step_backward(dstate, saved_step, recurrent_weight.T)
    drecurrent_weight = state[:, :len(recurrent_weight)].T @ da

    # a = linear(x, input_weight, bias)
    dx, dinput_weight, dbias = linear_backward(da, saved_input)
    return dx, dbefore, dinput_weight, drecurrent_weight, dbias


def lstm_step(a, state, recurrent_weight):
    """`lstm_cell` from a = x W + b, shape (B, 4F)."""
    F = len(recurrent_weight)
    h, c = state[:, :F], state[:, F:]                                 # (B, F)
    a = a + h @ recurrent_weight                                      # (B, 4F)
    gates, saved_gates = sigmoid(a[:, :3 * F])
    i, f, o = gates[:, :F], gates[:, F:2 * F], gates[:, 2 * F:]
    g = np.tanh(a[:, 3 * F:])
    memory = f * c + i * g
    shown = np.tanh(memory)
    after = np.concatenate([o * shown, memory], axis=1)               # (B, 2F)

    saved = (c, gates, saved_gates, g, shown)                         # tanh costs more than its memory: keep it
    return after, saved


def lstm_step_backward(dstate, saved, turned):
    """(da, dstate) of `lstm_step`, from the turned weight, (4F, F): a loop over time turns it once.

    The weight's own gradient is h' da, in one product for all time steps, when all da are there.
    """
    c, gates, saved_gates, g, shown = saved
    F = c.shape[1]
    i, f, o = gates[:, :F], gates[:, F:2 * F], gates[:, 2 * F:]

    # after = concatenate([o * shown, memory])
    dh, dmemory = dstate[:, :F], dstate[:, F:]
    do = dh * shown

    # shown = tanh(memory)
    dmemory = dmemory + dh * o * (1 - shown * shown)

    # memory = f * c + i * g
    df, dc, di, dg = dmemory * c, dmemory * f, dmemory * g, dmemory * i

    # gates = sigmoid(a[:, :3 * F]);  g = tanh(a[:, 3 * F:])
    da = np.concatenate([sigmoid_backward(np.concatenate([di, df, do], axis=1), saved_gates), dg * (1 - g * g)], axis=1)

    # a = a + h @ recurrent_weight
    return da, np.concatenate([da @ turned, dc], axis=1)
