"""The LSTM cell: gates decide what its memory forgets and takes in, and gradients travel far back.

The memory is updated by a sum, not overwritten, so its gradient passes through no weight matrix.
"""

import numpy as np

from numformer.functional.activations.sigmoid import sigmoid, sigmoid_backward
from numformer.functional.linear import linear, linear_backward
from numformer.functional.recurrent.rnn import check_cell


def lstm_cell(x, state, input_weight, recurrent_weight, bias=None):
    r"""Forget a fraction of the memory, add a candidate to it, and output a part of it.

    .. math::

        (a_i, a_f, a_o, a_g) = x W + h U + b, \qquad
        (i, f, o) = \sigma(a_i, a_f, a_o), \quad g = \tanh(a_g), \qquad
        c' = f c + i g, \qquad h' = o \tanh(c')

    Products of gates are elementwise, and :math:`\sigma`, the sigmoid, gives numbers from 0 to 1.

    Parameters
    ----------
    x : ndarray, shape (B, C)
        The input of one time step.
    state : ndarray, shape (B, 2F)
        h and c concatenated: output and memory of the previous time step; zeros at the start.
    input_weight : ndarray, shape (C, 4F)
        W: the blocks of input gate i, forget gate f, output gate o and candidate g. (cuDNN and
        PyTorch have i, f, g, o.)
    recurrent_weight : ndarray, shape (F, 4F)
        U, in the same order.
    bias : ndarray, shape (4F,), optional
        b, in the same order. A forget gate's bias of 1 or more keeps most of the memory at first:
        sigma(1) is 0.73.

    Returns
    -------
    state : ndarray, shape (B, 2F)
        h' and c' concatenated; h' is the output of the cell.
    saved : tuple
        For `lstm_cell_backward`.

    Raises
    ------
    ValueError, TypeError
        If the arrays are not floats of one precision, or their widths do not fit.

    References
    ----------
    Hochreiter and Schmidhuber (1997), "Long Short-Term Memory", section 4; the forget gate: Gers,
    Schmidhuber, Cummins (2000), "Learning to Forget", section 3. As in most code since, the gates
    do not see c (there are no "peepholes").

    Examples
    --------
    >>> keep = np.array([-9.0, 9.0, 9.0, 0.0])       # write nothing, forget nothing, output all
    >>> x, state = np.ones((1, 1)), np.array([[0.0, 0.5]])
    >>> lstm_cell(x, state, np.zeros((1, 4)), np.zeros((1, 4)), keep)[0].round(3)
    array([[0.462, 0.5  ]])
    """
    check_cell("lstm_cell", x, state, input_weight, recurrent_weight, bias, gates=4, parts=2)
    a, saved_input = linear(x, input_weight, bias)                   # (B, 4F)
    after, saved_step = lstm_step(a, state, recurrent_weight)

    saved = (saved_input, saved_step, state, recurrent_weight)
    return after, saved


def lstm_cell_backward(dstate, saved):
    r"""The gradient of `lstm_cell`. From c' to c it passes through the forget gate only.

    .. math::

        \bar{o} = \bar{h'} \tanh c', \quad
        \bar{c'} \leftarrow \bar{c'} + \bar{h'} o\, (1 - \tanh^2 c'), \quad
        \bar{f} = \bar{c'} c, \quad \bar{i} = \bar{c'} g, \quad \bar{g} = \bar{c'} i, \quad
        \bar{c} = \bar{c'} f

    .. math::

        \bar{a} = \left( \bar{s}\, s (1 - s) \text{ for each gate } s,\;
                  \bar{g} (1 - g^2) \right), \qquad
        \bar{h} = \bar{a} U^\top, \quad \bar{U} = h^\top \bar{a}, \qquad
        \bar{x} = \bar{a} W^\top, \quad \bar{W} = x^\top \bar{a}, \quad \bar{b} = \bar{a}

    A bar is the gradient of the loss, in code a d; those of U, W and b are summed over B. c' has
    two: its own, as a part of the state, and the one through h'.

    Returns
    -------
    dx : ndarray, shape (B, C)
    dstate : ndarray, shape (B, 2F)
        With respect to the previous state.
    dinput_weight : ndarray, shape (C, 4F)
    drecurrent_weight : ndarray, shape (F, 4F)
    dbias : ndarray, shape (4F,), or None where there was no bias
    """
    saved_input, saved_step, state, recurrent_weight = saved

    # after = lstm_step(a, state, recurrent_weight)
    da, dbefore = lstm_step_backward(dstate, saved_step, recurrent_weight)
    h = state[:, :len(recurrent_weight)]                             # (B, F)
    drecurrent_weight = h.T @ da                                     # (F, 4F)

    # a = linear(x, input_weight, bias)
    dx, dinput_weight, dbias = linear_backward(da, saved_input)
    return dx, dbefore, dinput_weight, drecurrent_weight, dbias


def lstm_step(a, state, recurrent_weight):
    """`lstm_cell` from x W + b, which comes as `a`, shape (B, 4F).

    A layer computes x W + b for all time steps in one product, and then loops over this.
    """
    F = len(recurrent_weight)
    h, c = state[:, :F], state[:, F:]                                # (B, F)

    a = a + h @ recurrent_weight                                     # (B, 4F)
    gates, saved_gates = sigmoid(a[:, :3 * F])                       # (B, 3F)
    i, f, o = gates[:, :F], gates[:, F:2 * F], gates[:, 2 * F:]      # (B, F)
    g = np.tanh(a[:, 3 * F:])
    c_after = f * c + i * g
    tanh_c = np.tanh(c_after)
    h_after = o * tanh_c
    after = np.concatenate([h_after, c_after], axis=1)               # (B, 2F)

    saved = (c, gates, saved_gates, g, tanh_c)       # tanh costs more time than memory: keep it
    return after, saved


def lstm_step_backward(dafter, saved, recurrent_weight):
    """Gradients of a and of the state: one step of backpropagation through time.

    That of the weight, U, is h^T da: a layer adds it up for all time steps in one product.
    """
    c, gates, saved_gates, g, tanh_c = saved
    F = c.shape[1]
    i, f, o = gates[:, :F], gates[:, F:2 * F], gates[:, 2 * F:]

    # after = concatenate([h_after, c_after])
    dh_after, dc_after = dafter[:, :F], dafter[:, F:]

    # h_after = o * tanh_c
    do = dh_after * tanh_c
    dtanh_c = dh_after * o

    # tanh_c = tanh(c_after), which is a part of the state, too: its two gradients add up
    dc_after = dc_after + dtanh_c * (1 - tanh_c * tanh_c)

    # c_after = f * c + i * g
    df, dc = dc_after * c, dc_after * f
    di, dg = dc_after * g, dc_after * i

    # i, f, o = sigmoid(a[:, :3 * F]);  g = tanh(a[:, 3 * F:])
    dgates = sigmoid_backward(np.concatenate([di, df, do], axis=1), saved_gates)
    da = np.concatenate([dgates, dg * (1 - g * g)], axis=1)          # (B, 4F)

    # a = a + h @ recurrent_weight
    dh = da @ recurrent_weight.T                                     # (B, F)
    return da, np.concatenate([dh, dc], axis=1)
