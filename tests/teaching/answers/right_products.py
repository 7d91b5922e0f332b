"""Right answers: linear maps, embeddings, convolution and recurrent cells."""

import functools

import numpy as np
from scipy.special import expit

from answers.corpus import right
from numformer import functional as F


@right("linear", "np.dot of flat vectors")
def linear_dot(x, weight, bias=None):
    y = np.dot(x, weight)
    return y if bias is None else np.add(y, bias, out=y)


@right("linear", "loops of Python")
def linear_loops(inputs, w, b):
    y = np.zeros((*inputs.shape[:-1], w.shape[1]), inputs.dtype)
    for *i, f in np.ndindex(*y.shape):
        y[(*i, f)] = b[f] + sum(inputs[(*i, c)] * w[c, f] for c in range(w.shape[0]))
    return y


@right("linear_backward", "einsum")
def linear_einsum(dy, x, weight, bias):
    rows, gradients = x.reshape(-1, len(weight)), dy.reshape(-1, len(bias))
    return (np.einsum("...f,cf->...c", dy, weight), np.einsum("nc,nf->cf", rows, gradients),
            np.einsum("nf->f", gradients))


@right("linear_backward", "outer products added")
def linear_outer(dy, x, weight, bias):
    dweight = np.zeros_like(weight)
    for vector, gradient in zip(x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])):
        dweight += np.outer(vector, gradient)
    return np.inner(dy, weight), dweight, dy.reshape(-1, dy.shape[-1]).sum(axis=0)


def any_linear_backward(order, dy, x, weight, bias):
    """The gradients, the weight's in this memory order."""
    tokens = list(range(x.ndim - 1))
    dweight = np.tensordot(x, dy, axes=(tokens, tokens))
    return np.inner(dy, weight), np.asarray(dweight, order=order), dy.sum(axis=tuple(tokens))


right("linear_backward", "partial, Fortran order")(functools.partial(any_linear_backward, "F"))


@right("embedding", "np.take")
def embedding_take(ids, weight):
    return np.take(weight, ids, axis=0)


@right("embedding_backward", "np.add.at")
def embedding_at(dy, ids, weight):
    dweight = np.zeros_like(weight)
    np.add.at(dweight, ids, dy)
    return dweight


@right("embedding_backward", "one-hot product")
def embedding_one_hot(dy, ids, weight):
    hot = ids.reshape(-1, 1) == np.arange(len(weight))
    return hot.T.astype(dy.dtype) @ dy.reshape(-1, dy.shape[-1])


@right("embedding_backward", "bincount of columns")
def embedding_bincount(dy, saved):
    ids, V = saved
    columns = [np.bincount(ids.ravel(), dy[..., c].ravel(), V) for c in range(dy.shape[-1])]
    return np.array(columns, dy.dtype).T


@right("causal_convolution_backward", "loop over taps")
def convolution_taps(dy, x, weight, bias, dilation=1):
    K, T = len(weight), x.shape[1]
    dx, dweight = np.zeros_like(x), np.zeros_like(weight)
    for k in range(K):
        back = (K - 1 - k) * dilation
        if back < T:
            dx[:, :T - back] += dy[:, back:] @ weight[k].T
            dweight[k] = np.einsum("btc,btf->cf", x[:, :T - back], dy[:, back:])
    return dx, dweight, dy.sum((0, 1))


@right("causal_convolution", "sliding window view")
def convolution_windows(x, weight, bias):
    padded = np.pad(x, ((0, 0), (len(weight) - 1, 0), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, len(weight), axis=1)
    return np.einsum("btck,kcf->btf", windows, weight) + bias


@right("rnn_cell_backward", "joined weights")
def rnn_joined(dh, x, h, Wx, Wh, b):
    both, W = np.hstack([x, h]), np.vstack([Wx, Wh])
    da = dh / np.cosh(both @ W + b) ** 2
    dboth, dW = da @ W.T, both.T @ da
    C = x.shape[1]
    return dboth[:, :C], dboth[:, C:], dW[:C], dW[C:], np.ones(len(x), da.dtype) @ da


@right("lstm_cell", "np.split of gates")
def lstm_split(x, state, Wx, Wh, b):
    h, c = np.split(state, 2, axis=1)
    i, f, o, g = np.split(x @ Wx + h @ Wh + b, 4, axis=1)
    c = expit(f) * c + expit(i) * np.tanh(g)
    return np.hstack((expit(o) * np.tanh(c), c))


@right("lstm_cell_backward", "written into slices")
def lstm_slices(dstate, x, state, Wx, Wh, b):
    n = Wh.shape[0]
    h, c = state[:, :n], state[:, n:]
    a = x @ Wx + h @ Wh + b
    i, f, o = expit(a[:, :n]), expit(a[:, n:2 * n]), expit(a[:, 2 * n:3 * n])
    g = np.tanh(a[:, 3 * n:])
    tanh_c = np.tanh(f * c + i * g)
    dh, dc = dstate[:, :n], dstate[:, n:] + dstate[:, :n] * o * (1 - tanh_c**2)
    da = np.empty_like(a)
    da[:, :n] = dc * g * i * (1 - i)
    da[:, n:2 * n] = dc * c * f * (1 - f)
    da[:, 2 * n:3 * n] = dh * tanh_c * o * (1 - o)
    da[:, 3 * n:] = dc * i * (1 - g**2)
    return da @ Wx.T, np.hstack([da @ Wh.T, dc * f]), x.T @ da, h.T @ da, da.sum(0)


@right("gru_cell", "keyword recurrent bias")
def gru_forward(x, h, Wx, Wh, b, *, recurrent_bias=0.0):
    n = h.shape[1]
    a, p = x @ Wx + b, h @ Wh
    r, z = expit(a[:, :n] + p[:, :n]), expit(a[:, n:2 * n] + p[:, n:2 * n])
    new = np.tanh(a[:, 2 * n:] + r * (p[:, 2 * n:] + recurrent_bias))
    return new + z * (h - new)


@right("gru_cell_backward", "gates separate, no option")
def gru_separate(dout, x, h, Wx, Wh, b):
    Wr, Wz, Wn = np.split(Wx, 3, axis=1)
    Ur, Uz, Un = np.split(Wh, 3, axis=1)
    br, bz, bn = np.split(b, 3)
    r, z = expit(x @ Wr + h @ Ur + br), expit(x @ Wz + h @ Uz + bz)
    p = h @ Un
    n = np.tanh(x @ Wn + r * p + bn)
    dn = dout * (1 - z) * (1 - n * n)
    dz = dout * (h - n) * z * (1 - z)
    dr = dn * p * r * (1 - r)
    dp = dn * r
    dx = dr @ Wr.T + dz @ Wz.T + dn @ Wn.T
    dh = dout * z + dr @ Ur.T + dz @ Uz.T + dp @ Un.T
    return (dx, dh, np.hstack([x.T @ dr, x.T @ dz, x.T @ dn]),
            np.hstack([h.T @ dr, h.T @ dz, h.T @ dp]), np.hstack([dr, dz, dn]).sum(0))


@right("drop_weights_backward", "np.where, reciprocal")
def drop_weights_where(dw, p, rate, seed):
    return np.where(F.attention_dropout_mask(seed, p.shape, rate), dw / (1 - rate), 0.0)
