"""Wrong answers: the simple recurrent cell and LSTM."""

import numpy as np
from scipy.special import expit

from answers.corpus import wrong


def gradients(da, x, h, Wx, Wh):
    """(dx, dh, dWx, dWh, db) of a = x Wx + h Wh + b."""
    return da @ Wx.T, da @ Wh.T, x.T @ da, h.T @ da, da.sum(0)


@wrong("rnn_cell_backward", "the derivative of tanh is 1 - h, without the square")
def rnn_b_square(dh, x, h, Wx, Wh, b):
    return gradients(dh * (1 - np.tanh(x @ Wx + h @ Wh + b)), x, h, Wx, Wh)


@wrong("rnn_cell_backward", "the derivative of tanh is missing")
def rnn_b_tanh(dh, x, h, Wx, Wh, b):
    return gradients(dh, x, h, Wx, Wh)


@wrong("rnn_cell_backward", "1 - tanh**2 of the state before, not of the state after")
def rnn_b_before(dh, x, h, Wx, Wh, b):
    return gradients(dh * (1 - h**2), x, h, Wx, Wh)


@wrong("rnn_cell_backward", "the recurrent weight is not transposed")
def rnn_b_transpose(dh, x, h, Wx, Wh, b):
    da = dh * (1 - np.tanh(x @ Wx + h @ Wh + b) ** 2)
    return da @ Wx.T, da @ Wh, x.T @ da, h.T @ da, da.sum(0)


@wrong("rnn_cell_backward", "dWh has the new state in place of the old one")
def rnn_b_new_state(dh, x, h, Wx, Wh, b):
    new = np.tanh(x @ Wx + h @ Wh + b)
    da = dh * (1 - new**2)
    return da @ Wx.T, da @ Wh.T, x.T @ da, new.T @ da, da.sum(0)


@wrong("rnn_cell_backward", "the bias' gradient is the mean over the batch")
def rnn_b_bias(dh, x, h, Wx, Wh, b):
    da = dh * (1 - np.tanh(x @ Wx + h @ Wh + b) ** 2)
    return da @ Wx.T, da @ Wh.T, x.T @ da, h.T @ da, da.mean(0)


@wrong("rnn_cell_backward", "the slope of sigmoid, h (1 - h), for that of tanh")
def rnn_b_sigmoid(dh, x, h, Wx, Wh, b):
    new = np.tanh(x @ Wx + h @ Wh + b)
    return gradients(dh * new * (1 - new), x, h, Wx, Wh)


@wrong("rnn_cell", "the bias is forgotten")
def rnn_bias(x, h, Wx, Wh, b):
    return np.tanh(x @ Wx + h @ Wh)


def lstm(x, state, Wx, Wh, b):
    """h, c, gates i, f, o, candidate g, and tanh of the new memory."""
    h, c = np.split(state, 2, axis=1)
    i, f, o, g = np.split(x @ Wx + h @ Wh + b, 4, axis=1)
    i, f, o, g = expit(i), expit(f), expit(o), np.tanh(g)
    return h, c, i, f, o, g, np.tanh(f * c + i * g)


def through_gates(di, df, do, dg, i, f, o, g):
    return np.hstack([di * i * (1 - i), df * f * (1 - f), do * o * (1 - o), dg * (1 - g**2)])


def finish(da, dc_before, x, h, Wx, Wh):
    dx, dh, dWx, dWh, db = gradients(da, x, h, Wx, Wh)
    return dx, np.hstack([dh, dc_before]), dWx, dWh, db


@wrong("lstm_cell_backward", "the gradient through h does not reach the memory")
def lstm_b_output(dstate, x, state, Wx, Wh, b):
    h, c, i, f, o, g, t = lstm(x, state, Wx, Wh, b)
    dh, dc = np.split(dstate, 2, axis=1)
    da = through_gates(dc * g, dc * c, dh * t, dc * i, i, f, o, g)
    return finish(da, dc * f, x, h, Wx, Wh)


@wrong("lstm_cell_backward", "the memory's own incoming gradient is overwritten: = for +=")
def lstm_b_memory(dstate, x, state, Wx, Wh, b):
    h, c, i, f, o, g, t = lstm(x, state, Wx, Wh, b)
    dh = np.split(dstate, 2, axis=1)[0]
    dc = dh * o * (1 - t**2)
    da = through_gates(dc * g, dc * c, dh * t, dc * i, i, f, o, g)
    return finish(da, dc * f, x, h, Wx, Wh)


@wrong("lstm_cell_backward", "the derivative of tanh of the memory is missing")
def lstm_b_tanh(dstate, x, state, Wx, Wh, b):
    h, c, i, f, o, g, t = lstm(x, state, Wx, Wh, b)
    dh, dc = np.split(dstate, 2, axis=1)
    dc = dc + dh * o
    da = through_gates(dc * g, dc * c, dh * t, dc * i, i, f, o, g)
    return finish(da, dc * f, x, h, Wx, Wh)


@wrong("lstm_cell_backward", "the forget gate's gradient has the new memory, not the old one")
def lstm_b_forget(dstate, x, state, Wx, Wh, b):
    h, c, i, f, o, g, t = lstm(x, state, Wx, Wh, b)
    dh, dc = np.split(dstate, 2, axis=1)
    dc = dc + dh * o * (1 - t**2)
    da = through_gates(dc * g, dc * (f * c + i * g), dh * t, dc * i, i, f, o, g)
    return finish(da, dc * f, x, h, Wx, Wh)


@wrong("lstm_cell_backward", "the gradients of input gate and candidate are exchanged")
def lstm_b_exchanged(dstate, x, state, Wx, Wh, b):
    h, c, i, f, o, g, t = lstm(x, state, Wx, Wh, b)
    dh, dc = np.split(dstate, 2, axis=1)
    dc = dc + dh * o * (1 - t**2)
    da = through_gates(dc * i, dc * c, dh * t, dc * g, i, f, o, g)
    return finish(da, dc * f, x, h, Wx, Wh)


@wrong("lstm_cell_backward", "the old memory's gradient lacks the forget gate")
def lstm_b_old_memory(dstate, x, state, Wx, Wh, b):
    h, c, i, f, o, g, t = lstm(x, state, Wx, Wh, b)
    dh, dc = np.split(dstate, 2, axis=1)
    dc = dc + dh * o * (1 - t**2)
    da = through_gates(dc * g, dc * c, dh * t, dc * i, i, f, o, g)
    return finish(da, dc, x, h, Wx, Wh)


@wrong("lstm_cell_backward", "the sigmoids' derivatives are missing")
def lstm_b_sigmoids(dstate, x, state, Wx, Wh, b):
    h, c, i, f, o, g, t = lstm(x, state, Wx, Wh, b)
    dh, dc = np.split(dstate, 2, axis=1)
    dc = dc + dh * o * (1 - t**2)
    da = np.hstack([dc * g, dc * c, dh * t, dc * i * (1 - g**2)])
    return finish(da, dc * f, x, h, Wx, Wh)


@wrong("lstm_cell_backward", "the output gate's gradient has the memory, not its tanh")
def lstm_b_activated(dstate, x, state, Wx, Wh, b):
    h, c, i, f, o, g, t = lstm(x, state, Wx, Wh, b)
    dh, dc = np.split(dstate, 2, axis=1)
    dc = dc + dh * o * (1 - t**2)
    da = through_gates(dc * g, dc * c, dh * np.arctanh(t), dc * i, i, f, o, g)
    return finish(da, dc * f, x, h, Wx, Wh)


@wrong("lstm_cell_backward", "the blocks are in the order input, forget, candidate, output")
def lstm_b_blocks(dstate, x, state, Wx, Wh, b):
    h, c, i, f, o, g, t = lstm(x, state, Wx, Wh, b)
    dh, dc = np.split(dstate, 2, axis=1)
    dc = dc + dh * o * (1 - t**2)
    da = np.split(through_gates(dc * g, dc * c, dh * t, dc * i, i, f, o, g), 4, axis=1)
    return finish(np.hstack([da[0], da[1], da[3], da[2]]), dc * f, x, h, Wx, Wh)


@wrong("lstm_cell_backward", "two mistakes: the old memory's gradient lacks f, db is a mean")
def lstm_b_two(dstate, x, state, Wx, Wh, b):
    h, c, i, f, o, g, t = lstm(x, state, Wx, Wh, b)
    dh, dc = np.split(dstate, 2, axis=1)
    dc = dc + dh * o * (1 - t**2)
    da = through_gates(dc * g, dc * c, dh * t, dc * i, i, f, o, g)
    return *finish(da, dc, x, h, Wx, Wh)[:4], da.mean(0)


@wrong("lstm_cell", "the blocks are read in the order input, forget, candidate, output")
def lstm_order(x, state, Wx, Wh, b):
    h, c = np.split(state, 2, axis=1)
    i, f, g, o = np.split(x @ Wx + h @ Wh + b, 4, axis=1)
    c = expit(f) * c + expit(i) * np.tanh(g)
    return np.hstack([expit(o) * np.tanh(c), c])


@wrong("lstm_cell", "the memory is not squashed: the output is o * c")
def lstm_squash(x, state, Wx, Wh, b):
    h, c = np.split(state, 2, axis=1)
    i, f, o, g = np.split(x @ Wx + h @ Wh + b, 4, axis=1)
    c = expit(f) * c + expit(i) * np.tanh(g)
    return np.hstack([expit(o) * c, c])


@wrong("lstm_cell", "the state is memory and output, in the wrong order")
def lstm_state(x, state, Wx, Wh, b):
    c, h = np.split(state, 2, axis=1)
    i, f, o, g = np.split(x @ Wx + h @ Wh + b, 4, axis=1)
    c = expit(f) * c + expit(i) * np.tanh(g)
    return np.hstack([c, expit(o) * np.tanh(c)])


@wrong("rnn_cell_backward", "two mistakes: tanh is derived as 1 - h, dWh has the new state")
def rnn_b_two(dh, x, h, Wx, Wh, b):
    new = np.tanh(x @ Wx + h @ Wh + b)
    da = dh * (1 - new)
    return da @ Wx.T, da @ Wh.T, x.T @ da, new.T @ da, da.sum(0)
