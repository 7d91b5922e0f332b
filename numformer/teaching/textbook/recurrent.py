"""Recurrent cells, written out: every gate by itself."""

import numpy as np

from numformer.teaching.textbook.activations import sigmoid


def rnn_cell(x, state, input_weight, recurrent_weight, bias):
    return np.tanh(x @ input_weight + state @ recurrent_weight + bias)


def rnn_cell_backward(dstate, x, state, input_weight, recurrent_weight, bias):
    a = x @ input_weight + state @ recurrent_weight + bias
    after = np.tanh(a)
    da = dstate * (1 - after ** 2)
    dx = da @ input_weight.T
    dbefore = da @ recurrent_weight.T
    dinput_weight = x.T @ da
    drecurrent_weight = state.T @ da
    dbias = da.sum(axis=0)
    return dx, dbefore, dinput_weight, drecurrent_weight, dbias


def lstm_cell(x, state, input_weight, recurrent_weight, bias):
    h, c = np.split(state, 2, axis=1)
    a_i, a_f, a_o, a_g = np.split(x @ input_weight + h @ recurrent_weight + bias, 4, axis=1)
    i = sigmoid(a_i)
    f = sigmoid(a_f)
    o = sigmoid(a_o)
    g = np.tanh(a_g)
    memory = f * c + i * g
    out = o * np.tanh(memory)
    return np.concatenate([out, memory], axis=1)


def lstm_cell_backward(dstate, x, state, input_weight, recurrent_weight, bias):
    h, c = np.split(state, 2, axis=1)
    a_i, a_f, a_o, a_g = np.split(x @ input_weight + h @ recurrent_weight + bias, 4, axis=1)
    i = sigmoid(a_i)
    f = sigmoid(a_f)
    o = sigmoid(a_o)
    g = np.tanh(a_g)
    memory = f * c + i * g
    t = np.tanh(memory)
    dh, dmemory = np.split(dstate, 2, axis=1)
    do = dh * t
    dmemory = dmemory + dh * o * (1 - t ** 2)
    df = dmemory * c
    di = dmemory * g
    dg = dmemory * i
    dc = dmemory * f
    da_i = di * i * (1 - i)
    da_f = df * f * (1 - f)
    da_o = do * o * (1 - o)
    da_g = dg * (1 - g ** 2)
    da = np.concatenate([da_i, da_f, da_o, da_g], axis=1)
    dx = da @ input_weight.T
    dh_before = da @ recurrent_weight.T
    return (dx, np.concatenate([dh_before, dc], axis=1), x.T @ da, h.T @ da, da.sum(axis=0))


def gru_cell(x, state, input_weight, recurrent_weight, bias, recurrent_bias=0.0):
    x_r, x_z, x_n = np.split(x @ input_weight + bias, 3, axis=1)
    h_r, h_z, h_n = np.split(state @ recurrent_weight, 3, axis=1)
    r = sigmoid(x_r + h_r)
    z = sigmoid(x_z + h_z)
    n = np.tanh(x_n + r * (h_n + recurrent_bias))
    return z * state + (1 - z) * n


def gru_cell_backward(dstate, x, state, input_weight, recurrent_weight, bias, recurrent_bias=None):
    x_r, x_z, x_n = np.split(x @ input_weight + bias, 3, axis=1)
    h_r, h_z, h_n = np.split(state @ recurrent_weight, 3, axis=1)
    if recurrent_bias is not None:
        h_n = h_n + recurrent_bias
    r = sigmoid(x_r + h_r)
    z = sigmoid(x_z + h_z)
    n = np.tanh(x_n + r * h_n)
    dz = dstate * (state - n)
    dn = dstate * (1 - z)
    dbefore = dstate * z
    da_n = dn * (1 - n ** 2)
    dr = da_n * h_n
    dh_n = da_n * r
    da_r = dr * r * (1 - r)
    da_z = dz * z * (1 - z)
    da = np.concatenate([da_r, da_z, da_n], axis=1)
    dp = np.concatenate([da_r, da_z, dh_n], axis=1)
    dx = da @ input_weight.T
    dbefore = dbefore + dp @ recurrent_weight.T
    gradients = dx, dbefore, x.T @ da, state.T @ dp, da.sum(axis=0)
    return gradients if recurrent_bias is None else (*gradients, dh_n.sum(axis=0))


def gru_cell_reset_before(x, state, input_weight, recurrent_weight, bias):
    x_r, x_z, x_n = np.split(x @ input_weight + bias, 3, axis=1)
    w_r, w_z, w_n = np.split(recurrent_weight, 3, axis=1)
    r = sigmoid(x_r + state @ w_r)
    z = sigmoid(x_z + state @ w_z)
    n = np.tanh(x_n + (r * state) @ w_n)
    return z * state + (1 - z) * n


def gru_cell_reset_before_backward(dstate, x, state, input_weight, recurrent_weight, bias):
    x_r, x_z, x_n = np.split(x @ input_weight + bias, 3, axis=1)
    w_r, w_z, w_n = np.split(recurrent_weight, 3, axis=1)
    r = sigmoid(x_r + state @ w_r)
    z = sigmoid(x_z + state @ w_z)
    n = np.tanh(x_n + (r * state) @ w_n)
    dz = dstate * (state - n)
    dn = dstate * (1 - z)
    dbefore = dstate * z
    da_n = dn * (1 - n ** 2)
    dproduct = da_n @ w_n.T
    dr = dproduct * state
    da_r = dr * r * (1 - r)
    da_z = dz * z * (1 - z)
    dbefore = dbefore + dproduct * r + da_r @ w_r.T + da_z @ w_z.T
    da = np.concatenate([da_r, da_z, da_n], axis=1)
    dx = da @ input_weight.T
    drecurrent = np.concatenate([state.T @ da_r, state.T @ da_z, (r * state).T @ da_n], axis=1)
    return dx, dbefore, x.T @ da, drecurrent, da.sum(axis=0)
