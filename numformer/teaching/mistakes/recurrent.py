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
        da = dstate * {"no tanh": 1, "a for h": 1 - a * a,
                       "no square": 1 - after}.get(mistake, 1 - after * after)
        dx, dbefore, dinput, drecurrent, dbias = linear_gradients(da, x, state, input_weight,
                                                                  recurrent_weight)
        if mistake == "not transposed":
            dbefore = da @ recurrent_weight
        if mistake == "new state":
            drecurrent = after.T @ da
        if mistake == "passed on":
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
        activated = np.tanh(memory)
        dh, dmemory = dstate[:, :width], dstate[:, width:]
        if mistake == "no memory from above":
            dmemory = 0
        if mistake != "no memory from the output":
            dmemory = dmemory + dh * o * (1 if mistake == "no tanh of the memory"
                                          else 1 - activated * activated)
        do, df, di, dg = dh * (memory if mistake == "no tanh in do"
                               else activated), dmemory * c, dmemory * g, dmemory * i
        dgates = [d * (1 if mistake == "no sigmoid" else s * (1 - s))
                  for d, s in ((di, i), (df, f), (do, o))]
        dg = dg * (1 if mistake == "no tanh of the candidate" else 1 - g * g)
        if mistake == "other order":
            dgates, dg = [*dgates[:2], dg], dgates[2]
        da = np.concatenate([*dgates, dg], axis=1)
        dx, dbefore, dinput, drecurrent, dbias = linear_gradients(da, x, h, input_weight,
                                                                  recurrent_weight)
        if mistake == "new state":
            drecurrent = (o * activated).T @ da
        dc = dmemory if mistake == "no forget gate" else dmemory * f
        return dx, np.concatenate([dbefore, dc], axis=1), dinput, drecurrent, dbias
    return gradients


def gru(mistake, reset_after=True):
    """A backward of the GRU's cell, written out, with one mistake."""
    if mistake == "other side":
        reset_after = not reset_after

    def gradients(dstate, x, state, input_weight, recurrent_weight, bias, recurrent_bias=None):
        width, before = len(recurrent_weight), state
        of_gates, of_candidate = recurrent_weight[:, :2 * width], recurrent_weight[:, 2 * width:]
        a = x @ input_weight + bias
        r, z = np.split(F.sigmoid(a[:, :2 * width] + state @ of_gates)[0], 2, axis=1)
        projected = state @ of_candidate + (0 if recurrent_bias is None else recurrent_bias)
        n = np.tanh(a[:, 2 * width:]
                    + (r * projected if reset_after else (r * state) @ of_candidate))
        dn, dz, direct = dstate * (1 - z), dstate * (state - n), dstate * z
        if mistake == "inverted update":
            dn, dz, direct = dstate * z, dstate * (n - state), dstate * (1 - z)
        if mistake == "dz without n":
            dz = dstate * state
        dn = dn * (1 if mistake == "no tanh" else 1 - n * n)
        dproduct = dn @ of_candidate.T
        dr = dn * projected if reset_after else dproduct * state
        if mistake == "no reset":
            dr = 0 * dr
        if mistake == "no direct path":
            direct = 0
        dgates = np.concatenate([d if mistake == "no sigmoid" else d * s * (1 - s)
                                 for d, s in ((dr, r), (dz, z))], axis=1)
        dbefore = direct + dgates @ of_gates.T + ((dn * r) @ of_candidate.T if reset_after
                                                  else dproduct * r)
        dcandidate = state.T @ (dn * r) if reset_after else (r * before).T @ dn
        if mistake == "no reset in the weight":
            dcandidate = state.T @ dn
        da = np.concatenate([dgates, dn], axis=1)
        drecurrent = np.concatenate([state.T @ dgates, dcandidate], axis=1)
        gradients = da @ input_weight.T, dbefore, x.T @ da, drecurrent, da.sum(axis=0)
        return gradients if recurrent_bias is None else (*gradients, (dn * r).sum(axis=0))
    return gradients


def convolution(mistake):
    """A backward of causal convolution, written out, with one mistake."""
    def gradients(dy, x, weight, bias, dilation=1):
        if mistake == "no dilation":
            dilation = 1
        K, T = len(weight), x.shape[1]
        dx, dweight = np.zeros_like(x), np.zeros_like(weight)
        for k in range(K):
            back = (k if mistake == "reversed" else K - 1 - k) * dilation
            if mistake == "future":
                dx[:, back:] += dy[:, :T - back] @ weight[k].T
                dweight[k] = np.tensordot(x[:, back:], dy[:, :T - back], axes=((0, 1), (0, 1)))
            else:
                if mistake == "not moved back":
                    dx[:, back:] += dy[:, :T - back] @ weight[k].T
                else:
                    dx[:, :T - back] += dy[:, back:] @ weight[k].T
                dweight[k] = np.tensordot(x[:, :T - back], dy[:, back:], axes=((0, 1), (0, 1)))
        dbias = dy.sum(axis=0 if mistake == "sum over the batch only" else (0, 1))
        return dx, dweight, dbias
    return gradients


GRU_MISTAKES = [
    ("the update gate is inverted: z is the fraction of the old state", "inverted update"),
    ("the direct path is missing in dstate: z * dh'", "no direct path"),
    ("n is missing in the gradient of the update gate: dz = dh' * (h - n)", "dz without n"),
    ("the reset gate is on the wrong side of the product", "other side"),
    ("the gradient of the reset gate is missing", "no reset"),
    ("the reset gate is missing in the gradient of the candidate's recurrent weight",
     "no reset in the weight"),
    ("the derivative of the gates is missing: s * (1 - s)", "no sigmoid"),
    ("the derivative of the candidate is missing: 1 - n**2", "no tanh")]

MISTAKES = {
    "rnn_cell_backward": [(cause, rnn(mistake)) for cause, mistake in [
        ("the derivative of tanh is missing: 1 - h'**2", "no tanh"),
        ("a is used instead of h' = tanh(a): the derivative of tanh is 1 - h'**2", "a for h"),
        ("the square is missing in the derivative of tanh: 1 - h'**2", "no square"),
        ("the recurrent weight is not transposed in dstate", "not transposed"),
        ("drecurrent_weight is computed with the new state, but the weight multiplied the "
         "previous one", "new state"),
        ("dstate is also passed on directly: this cell has no path around the weight", "passed on"),
        ("the sum over the batch is missing in the gradient of the bias", "no sum")]],
    "lstm_cell_backward": [(cause, lstm(mistake)) for cause, mistake in [
        ("the gradient of the new memory is ignored: it is the second half of dstate",
         "no memory from above"),
        ("the gradient of the memory through the output is missing: dh' * o * (1 - tanh(c')**2)",
         "no memory from the output"),
        ("the derivative of tanh(c') is missing", "no tanh of the memory"),
        ("c' is used instead of tanh(c') in the gradient of the output gate", "no tanh in do"),
        ("the forget gate is missing in the gradient of the old memory: dc = dc' * f",
         "no forget gate"),
        ("the derivative of the gates is missing: s * (1 - s)", "no sigmoid"),
        ("the derivative of the candidate is missing: 1 - g**2", "no tanh of the candidate"),
        ("drecurrent_weight is computed with the new output, but the weight multiplied the "
         "previous one", "new state"),
        ("the blocks are read as i, f, g, o, but their order is i, f, o, g", "other order")]],
    "gru_cell_backward": [(cause, gru(mistake)) for cause, mistake in GRU_MISTAKES],
    "gru_cell_reset_before_backward": [(cause, gru(mistake, reset_after=False))
                                       for cause, mistake in GRU_MISTAKES],
    "causal_convolution_backward": [(cause, convolution(mistake)) for cause, mistake in [
        ("the weights are in reverse order: the last one is for the current position", "reversed"),
        ("the window includes future positions: it must end at the current one", "future"),
        ("dx is shifted the wrong way: a position gets gradients from later positions",
         "not moved back"),
        ("the dilation is missing", "no dilation"),
        ("the gradient of the bias is summed over the batch only: it must be summed over all "
         "positions", "sum over the batch only")]],
}
