"""Mistakes in recurrent cells and in causal convolution."""

import numpy as np

from numformer import functional as F


def linear_gradients(da, x, state, input_weight, recurrent_weight):
    """dx, dstate and the gradients of both weights and the bias, of a = x W + h U + b."""
    return da @ input_weight.T, da @ recurrent_weight.T, x.T @ da, state.T @ da, da.sum(axis=0)


def rnn(mistake):
    """A backward of the plain cell, written out, with one mistake."""
    def gradients(dstate, x, state, input_weight, recurrent_weight, bias):
        a = x @ input_weight + state @ recurrent_weight + bias
        after = np.tanh(a)
        da = dstate * {"no tanh": 1, "a for h": 1 - a * a, "no square": 1 - after}.get(mistake, 1 - after * after)
        dx, dbefore, dinput, drecurrent, dbias = linear_gradients(da, x, state, input_weight, recurrent_weight)
        if mistake == "not turned":
            dbefore = da @ recurrent_weight
        if mistake == "later state":
            drecurrent = after.T @ da
        if mistake == "handed on":
            dbefore = dbefore + dstate
        return dx, dbefore, dinput, drecurrent, da if mistake == "no sum" else dbias
    return gradients


def lstm(mistake):
    """A backward of the LSTM's cell, written out, with one mistake."""
    def gradients(dstate, x, state, input_weight, recurrent_weight, bias):
        width = len(recurrent_weight)
        h, c = state[:, :width], state[:, width:]
        a = np.split(x @ input_weight + h @ recurrent_weight + bias, 4, axis=1)
        if mistake == "other order":
            a = [a[0], a[1], a[3], a[2]]
        (i, f, o), g = (F.sigmoid(part)[0] for part in a[:3]), np.tanh(a[3])
        memory = f * c + i * g
        shown = np.tanh(memory)
        dh, dmemory = dstate[:, :width], dstate[:, width:]
        if mistake == "no memory from above":
            dmemory = 0
        if mistake != "no memory from the output":
            dmemory = dmemory + dh * o * (1 if mistake == "no tanh of the memory" else 1 - shown * shown)
        do, df, di, dg = dh * (memory if mistake == "memory for shown" else shown), dmemory * c, dmemory * g, dmemory * i
        dgates = [d * (1 if mistake == "no sigmoid" else s * (1 - s)) for d, s in ((di, i), (df, f), (do, o))]
        dg = dg * (1 if mistake == "no tanh of the candidate" else 1 - g * g)
        if mistake == "other order":
            dgates, dg = [*dgates[:2], dg], dgates[2]
        da = np.concatenate([*dgates, dg], axis=1)
        dx, dbefore, dinput, drecurrent, dbias = linear_gradients(da, x, h, input_weight, recurrent_weight)
        if mistake == "later state":
            drecurrent = (o * shown).T @ da
        dc = dmemory if mistake == "no forget gate" else dmemory * f
        return dx, np.concatenate([dbefore, dc], axis=1), dinput, drecurrent, dbias
    return gradients


def gru(mistake):
    """A backward of the GRU's cell, written out, with one mistake."""
    def gradients(dstate, x, state, input_weight, recurrent_weight, bias, recurrent_bias=None, reset_after=True):
        if mistake == "other side":
            reset_after = not reset_after
        width, before = len(recurrent_weight), state
        of_gates, of_candidate = recurrent_weight[:, :2 * width], recurrent_weight[:, 2 * width:]
        a = x @ input_weight + bias
        r, z = np.split(F.sigmoid(a[:, :2 * width] + state @ of_gates)[0], 2, axis=1)
        seen = state @ of_candidate + (0 if recurrent_bias is None else recurrent_bias)
        n = np.tanh(a[:, 2 * width:] + (r * seen if reset_after else (r * state) @ of_candidate))
        dn, dz, direct = dstate * (1 - z), dstate * (state - n), dstate * z
        if mistake == "other share":
            dn, dz, direct = dstate * z, dstate * (n - state), dstate * (1 - z)
        if mistake == "dz without n":
            dz = dstate * state
        dn = dn * (1 if mistake == "no tanh" else 1 - n * n)
        dproduct = dn @ of_candidate.T
        dr = dn * seen if reset_after else dproduct * state
        if mistake == "no reset":
            dr = 0 * dr
        if mistake == "no direct path":
            direct = 0
        dgates = np.concatenate([d if mistake == "no sigmoid" else d * s * (1 - s) for d, s in ((dr, r), (dz, z))], axis=1)
        dbefore = direct + dgates @ of_gates.T + ((dn * r) @ of_candidate.T if reset_after else dproduct * r)
        dcandidate = state.T @ (dn * r) if reset_after else (r * before).T @ dn
        if mistake == "no reset in the weight":
            dcandidate = state.T @ dn
        da = np.concatenate([dgates, dn], axis=1)
        drecurrent = np.concatenate([state.T @ dgates, dcandidate], axis=1)
        return (da @ input_weight.T, dbefore, x.T @ da, drecurrent, da.sum(axis=0)) + (() if recurrent_bias is None else (
            (dn * r).sum(axis=0),))
    return gradients


def convolution(mistake):
    """A backward of causal convolution, written out, with one mistake."""
    def gradients(dy, x, weight, bias, dilation=1):
        if mistake == "no dilation":
            dilation = 1
        K, T = len(weight), x.shape[1]
        dx, dweight = np.zeros_like(x), np.zeros_like(weight)
        for k in range(K):
            back = (k if mistake == "turned around" else K - 1 - k) * dilation
            if mistake == "future":
                dx[:, back:] += dy[:, :T - back] @ weight[k].T
                dweight[k] = np.tensordot(x[:, back:], dy[:, :T - back], axes=((0, 1), (0, 1)))
            else:
                if mistake == "not moved back":
                    dx[:, back:] += dy[:, :T - back] @ weight[k].T
                else:
                    dx[:, :T - back] += dy[:, back:] @ weight[k].T
                dweight[k] = np.tensordot(x[:, :T - back], dy[:, back:], axes=((0, 1), (0, 1)))
        return dx, dweight, dy.sum(axis=0) if mistake == "sum over the batch alone" else dy.sum(axis=(0, 1))
    return gradients


MISTAKES = {
    "rnn_cell_backward": [(cause, rnn(mistake)) for cause, mistake in [
        ("tanh's derivative is missing: 1 - h'**2", "no tanh"),
        ("a stands where h' = tanh(a) belongs: tanh's derivative is 1 - h'**2", "a for h"),
        ("the square is missing in tanh's derivative: 1 - h'**2", "no square"),
        ("the recurrent weight is not transposed in dstate", "not turned"),
        ("drecurrent_weight is made with the new state, but the weight met the one before", "later state"),
        ("dstate is handed on beside the weight: this cell has no such path", "handed on"),
        ("the sum over the batch is missing in the bias's gradient", "no sum")]],
    "lstm_cell_backward": [(cause, lstm(mistake)) for cause, mistake in [
        ("what comes for the memory itself is left out: dstate has a half for it", "no memory from above"),
        ("what comes to the memory through the output is missing: dh' * o * (1 - tanh(c')**2)", "no memory from the output"),
        ("the derivative of tanh(c') is missing", "no tanh of the memory"),
        ("c' stands where tanh(c') belongs, in the output gate's gradient", "memory for shown"),
        ("the forget gate is missing in the gradient of the old memory: dc = dc' * f", "no forget gate"),
        ("the gates' own derivative is missing: s * (1 - s)", "no sigmoid"),
        ("the candidate's own derivative is missing: 1 - g**2", "no tanh of the candidate"),
        ("drecurrent_weight is made with the new output, but the weight met the one before", "later state"),
        ("the blocks are taken as i, f, g, o, but stand as i, f, o, g", "other order")]],
    "gru_cell_backward": [(cause, gru(mistake)) for cause, mistake in [
        ("the update gate is taken the other way round: z is the share of the old state", "other share"),
        ("the direct path is missing in dstate: z * dh'", "no direct path"),
        ("n is missing in the update gate's gradient: dz = dh' * (h - n)", "dz without n"),
        ("the reset gate stands on the other side of the product", "other side"),
        ("the reset gate's gradient is missing", "no reset"),
        ("the reset gate is missing in the gradient of the candidate's recurrent weight", "no reset in the weight"),
        ("the gates' own derivative is missing: s * (1 - s)", "no sigmoid"),
        ("the candidate's own derivative is missing: 1 - n**2", "no tanh")]],
    "causal_convolution_backward": [(cause, convolution(mistake)) for cause, mistake in [
        ("the weights are taken in the opposite order: the last of them is for the position itself", "turned around"),
        ("the window looks into the future: it must end at the position itself", "future"),
        ("dx is moved forward: what a position gave to later ones comes back from them", "not moved back"),
        ("the dilation is left out", "no dilation"),
        ("the bias's gradient is summed over the batch alone: every position counts", "sum over the batch alone")]],
}
