"""Composites, tied parameters, masks, ids, dropout, 0-d outputs, other association of products."""

import numpy as np

from numformer.parameter import Layer, Parameter

rng = np.random.default_rng(13)
X = rng.standard_normal((2, 3, 4))


class Tied(Layer):
    """x W tanh W': one parameter, used twice, and held in two places."""

    def __init__(self):
        self.encoder = {"weight": Parameter(rng.standard_normal((4, 3)))}
        self.decoder = [self.encoder["weight"]]

    def forward(self, x):
        W = self.encoder["weight"].data
        h = np.tanh(np.einsum("btc,cd->btd", x, W))
        return np.einsum("btd,cd->btc", h, W), (x, h)

    def backward(self, dy, saved):
        x, h = saved
        parameter = self.decoder[0]
        parameter.grad += np.einsum("btc,btd->cd", dy, h)
        dz = (dy @ parameter.data) * (1 - h ** 2)
        parameter.grad += np.einsum("btc,btd->cd", x, dz)
        return dz @ parameter.data.T


class Twice(Layer):
    """The same layer twice, in a list of parts."""

    def __init__(self, part):
        self.parts = [part, part]

    def forward(self, x):
        saved = []
        for part in self.parts:
            x, more = part.forward(x)
            saved.append(more)
        return x, saved

    def backward(self, dy, saved):
        for part, more in zip(self.parts[::-1], saved[::-1]):
            dy = part.backward(dy, more)
        return dy


class Embedding(Layer):
    """Rows by ids, with repeated ids; the ids get no gradient, or None."""

    def __init__(self, returns):
        self.table, self.returns = Parameter(rng.standard_normal((5, 3))), returns

    def forward(self, ids):
        return self.table.data[ids], (ids,)

    def backward(self, dy, saved):
        np.add.at(self.table.grad, saved[0], dy)
        return self.returns


class IdsAndFloats(Layer):
    """A row by id plus x: the gradient of x alone, as a tuple of one."""

    def __init__(self):
        self.table = Parameter(rng.standard_normal((5, 4)))

    def forward(self, ids, x):
        return self.table.data[ids] * x, (ids, x)

    def backward(self, dy, saved):
        ids, x = saved
        np.add.at(self.table.grad, ids, dy * x)
        return (dy * self.table.data[ids],)


class NoParameters(Layer):
    """A sum to one number, scaled: a 0-d output."""

    def forward(self, x):
        return 0.5 * (x * x).sum(), x

    def backward(self, dloss, x):
        return dloss * x


class Dropout(Layer):
    """A mask from a generator that comes with every call."""

    def forward(self, x, rng=None):
        keep = 1.0 if rng is None else (rng.random(x.shape) < 0.7) / 0.7
        return x * keep, keep

    def backward(self, dy, keep):
        return dy * keep


class Masked(Layer):
    """A softmax over allowed positions; a row that allows nothing gives 0."""

    def forward(self, x, mask=None, weights=None):
        z = np.where(mask, x, -np.inf)
        most = np.where(mask, x.real, -np.inf).max(axis=-1, keepdims=True)
        e = np.where(mask, np.exp(z - np.where(np.isfinite(most), most, 0)), 0)
        total = e.sum(axis=-1, keepdims=True)
        p = np.where(total.real > 0, e / np.where(total.real > 0, total, 1), 0)
        return p * weights["scale"], (p, weights["scale"])

    def backward(self, dy, saved):
        p, scale = saved
        dp = dy * scale
        return p * (dp - (p * dp).sum(axis=-1, keepdims=True))


class AddedMask(Layer):
    """A mask of 0 and -inf as an input, whose gradient is that of the scores."""

    def forward(self, scores, mask):
        e = np.exp(scores + mask - (scores + mask).real.max(axis=-1, keepdims=True))
        p = e / e.sum(axis=-1, keepdims=True)
        return p, p

    def backward(self, dp, p):
        ds = p * (dp - (p * dp).sum(axis=-1, keepdims=True))
        return ds, ds.sum(axis=0)


class LoopedRNN(Layer):
    """A recurrent cell, step by step, with the sums in another order in backward."""

    def __init__(self):
        self.w, self.u = (Parameter(0.5 * rng.standard_normal((3, 3))) for _ in range(2))

    def forward(self, x):
        h, states = np.zeros((len(x), 3)), []
        for t in range(x.shape[1]):
            h = np.tanh(x[:, t] @ self.w.data + h @ self.u.data)
            states.append(h)
        return np.stack(states, axis=1), (x, states)

    def backward(self, dy, saved):
        x, states = saved
        dx, dh = np.empty(x.shape), np.zeros(dy[:, 0].shape)
        for t in reversed(range(x.shape[1])):
            dz = (dh + dy[:, t]) * (1 - states[t] ** 2)
            dx[:, t] = dz @ self.w.data.T
            for b in range(len(x)):
                self.w.grad += np.outer(x[b, t], dz[b])
                if t:
                    self.u.grad += np.outer(states[t - 1][b], dz[b])
            dh = dz @ self.u.data.T
        return dx


class ExplicitJacobian(Layer):
    """Softmax by its Jacobian, diag(p) - p p'."""

    def forward(self, x):
        e = np.exp(x - x.real.max(axis=-1, keepdims=True))
        p = e / e.sum(axis=-1, keepdims=True)
        return p, p

    def backward(self, dp, p):
        jacobian = np.einsum("...i,ij->...ij", p, np.eye(p.shape[-1]))
        jacobian = jacobian - np.einsum("...i,...j->...ij", p, p)
        return np.einsum("...i,...ij->...j", dp, jacobian)


class Cached(Layer):
    """A table of angles, built at the first call and kept: it does not depend on what comes in."""

    def __init__(self):
        self.tables = {}

    def forward(self, x):
        table = self.tables.setdefault(x.shape[-1], np.cos(np.arange(x.shape[-1])))
        return x * table, None

    def backward(self, dy, saved):
        return dy * self.tables[dy.shape[-1]]


class Reshape(Layer):
    """Views of x, and of dy."""

    def forward(self, x):
        return x.transpose(0, 2, 1).reshape(len(x), -1), x.shape

    def backward(self, dy, shape):
        return dy.reshape(shape[0], shape[2], shape[1]).transpose(0, 2, 1)


class Add(Layer):
    """The same dy for both; the second input is broadcast."""

    def forward(self, x, bias):
        return x + bias, None

    def backward(self, dy, saved):
        return dy, dy.sum(axis=(0, 1))


def total(x):
    """A gradient that is one number, broadcast."""
    return x.sum(), x.shape


def total_backward(dy, shape):
    return np.broadcast_to(dy, shape)


def unused(x, y):
    return x * 1.0, y.shape


def unused_backward(dy, shape):
    return dy.copy(), np.zeros(shape)


def cumulative(x):
    return np.cumsum(x, axis=-1), None


def cumulative_backward(dy, _):
    return np.flip(np.cumsum(np.flip(dy, axis=-1), axis=-1), axis=-1)


def spectrum(x):
    """Convolution with a fixed filter; a Fourier transform rounds away an imaginary 1e-30."""
    return np.fft.ifft(np.fft.fft(x) * np.fft.fft(KERNEL)).real, None


def spectrum_backward(dy, _):
    return np.fft.ifft(np.fft.fft(dy) * np.conj(np.fft.fft(KERNEL))).real


KERNEL = np.array([0.5, -1.0, 0.25, 2.0])
IDS = np.array([[0, 2, 2], [4, 0, 1]])
MASK = np.array([[True, False, True, True], [False] * 4, [True] * 4])

CASES = [
    ("tied parameters", Tied(), [X], {}), ("one layer twice", Twice(Tied()), [X], {}),
    ("embedding, nothing returned", Embedding(None), [IDS], {}),
    ("embedding, an empty tuple", Embedding(()), [IDS], {}),
    ("ids and floats", IdsAndFloats(), [IDS, X], {}),
    ("a 0-d output", NoParameters(), [X], {}),
    ("a 0-d input", NoParameters(), [np.array(3.0)], {}),
    ("dropout, options made anew", Dropout(), [X],
     {"options": lambda: {"rng": np.random.default_rng(3)}}),
    ("dropout, a generator in a dict", Dropout(), [X],
     {"options": {"rng": np.random.default_rng(3)}}),
    ("masks and nested options", Masked(), [X[0]],
     {"options": {"mask": MASK, "weights": {"scale": np.array(2.0)}}}),
    ("a mask of -inf", AddedMask(), [X[0], np.array([0.0, 0.0, -np.inf, 0.0])], {}),
    ("a looped RNN", LoopedRNN(), [rng.standard_normal((2, 4, 3))], {}),
    ("an explicit Jacobian", ExplicitJacobian(), [X], {}),
    ("an explicit Jacobian, saturated", ExplicitJacobian(), [100 * X], {}),
    ("a table kept for its shape", Cached(), [X], {}),
    ("views", Reshape(), [X], {}), ("a sum with a broadcast", Add(), [X, X[0, 0]], {}),
    ("a broadcast gradient", (total, total_backward), [X], {}),
    ("an input without effect", (unused, unused_backward), [X, X[0]], {}),
    ("cumulative sums", (cumulative, cumulative_backward), [X], {}),
    ("Fourier transforms", (spectrum, spectrum_backward), [X], {"complex_safe": False}),
]
