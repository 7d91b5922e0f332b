"""Arrays written into that belong to others, and one array for several results."""

import numpy as np

from numformer.parameter import Layer, Parameter

rng = np.random.default_rng(9)
X = rng.standard_normal((3, 4))


class Scale(Layer):
    """y = w x, right in everything."""

    def __init__(self):
        self.w = Parameter(rng.standard_normal(4))
        self._workspace = np.zeros((3, 4))

    def forward(self, x, **options):
        return x * self.w.data, (x,)

    def backward(self, dy, saved):
        (x,) = saved
        self.w.grad += (dy * x).sum(axis=0)
        return dy * self.w.data


class OneDx(Scale):
    def backward(self, dy, saved):
        np.copyto(self._workspace, super().backward(dy, saved))
        return self._workspace


class OneY(Scale):
    def forward(self, x):
        if x.dtype == complex or self.w.data.dtype == complex:
            return x * self.w.data, (x,)
        return np.multiply(x, self.w.data, out=_OUTPUT), (x,)

    def backward(self, dy, saved):
        self.w.grad += (dy * saved[0]).sum(axis=0)
        return dy * self.w.data


class DxInSaved(Scale):
    def forward(self, x):
        return x * self.w.data, (x.copy(), np.empty(x.shape))

    def backward(self, dy, saved):
        x, dx = saved
        self.w.grad += (dy * x).sum(axis=0)
        return np.multiply(dy, self.w.data, out=dx)


class DxIsX(Scale):
    """A loss with the gradient x, returned as it is for dy = 1."""

    def forward(self, x):
        return 0.5 * (x * x).sum() + 0 * self.w.data.sum(), (x,)

    def backward(self, dy, saved):
        return saved[0] if dy == 1 else saved[0] * dy


class DxIsAParameter(Scale):
    """An inner product with the gradient w, returned as it is for dy = 1."""

    def forward(self, x):
        return (x * self.w.data).sum(), (x,)

    def backward(self, dy, saved):
        self.w.grad += dy * saved[0]
        return self.w.data if dy == 1 else dy * self.w.data


class WritesIntoX(Scale):
    def forward(self, x):
        y = x * self.w.data
        x -= x.mean()
        return y, (x.copy(),)


class WritesIntoIds(Layer):
    def forward(self, ids, x):
        y = x[ids]
        ids += 1
        return y, (ids - 1, x)

    def backward(self, dy, saved):
        ids, x = saved
        dx = np.zeros_like(x)
        np.add.at(dx, ids, dy)
        return dx


class WritesIntoDy(Scale):
    def backward(self, dy, saved):
        self.w.grad += (dy * saved[0]).sum(axis=0)
        dy *= self.w.data
        return dy.copy()


class WritesIntoSaved(Scale):
    def forward(self, x):
        return x * self.w.data, (x.copy(),)

    def backward(self, dy, saved):
        dx = super().backward(dy, saved)
        saved[0][...] *= 2
        dx += 0 * saved[0]
        return dx


class ChangesWhatItSaved(Scale):
    """Consumes a list."""

    def forward(self, x):
        return x * self.w.data * 2, [(x,), 2.0]

    def backward(self, dy, saved):
        factor = saved.pop() if len(saved) > 1 else 1.0
        return super().backward(dy * factor, saved[0])


class WritesIntoY(Scale):
    def forward(self, x):
        y = np.tanh(x * self.w.data)
        return y, (x, y)

    def backward(self, dy, saved):
        x, y = saved
        np.multiply(y, y, out=y)
        dz = dy * (1 - y)
        np.sqrt(y, out=y)
        return super().backward(dz, (x,))


class StepsItself(Scale):
    def backward(self, dy, saved):
        dx = super().backward(dy, saved)
        self.w.data -= 0.1 * self.w.grad
        return dx


class WritesIntoAnOption(Scale):
    def forward(self, x, bias=None):
        bias *= 0.5
        return x * self.w.data + 0 * bias, (x,)


class PopsAnOption(Scale):
    def forward(self, x, settings=None):
        settings.pop("seed", None)
        return super().forward(x)


class AppendsToAnOption(Scale):
    def forward(self, x, log=None):
        log.append(1)
        return super().forward(x)


class WritesIntoAnOptionInBackward(Scale):
    def forward(self, x, weights=None):
        return x * self.w.data * weights["w"], (x, weights)

    def backward(self, dy, saved):
        x, weights = saved
        dx = super().backward(dy * weights["w"], (x,))
        weights["w"] += 1
        return dx


_OUTPUT = np.zeros((3, 4))
BIAS = np.ones(4)

BUGS = [
    ("one dx for all calls", OneDx(), [X], {}, "a later call changed the gradient of x"),
    ("one y for all calls", OneY(), [X], {}, "forward changes global _OUTPUT"),
    ("dx is a part of saved", DxInSaved(), [X], {}, "is a part of saved"),
    ("dx is x", DxIsX(), [X], {}, "is a part of its argument x"),
    ("dx is a parameter", DxIsAParameter(), [X[0]], {}, "is a part of the parameter w"),
    ("x written into", WritesIntoX(), [X], {}, "forward writes into its argument x"),
    ("ids written into", WritesIntoIds(), [np.array([0, 1, 1]), X], {},
     "forward writes into its argument ids"),
    ("dy written into", WritesIntoDy(), [X], {}, "backward writes into dy"),
    ("saved written into", WritesIntoSaved(), [X], {}, "it writes into saved"),
    ("saved consumed", ChangesWhatItSaved(), [X], {}, "it writes into saved"),
    ("y written into", WritesIntoY(), [X], {}, "backward writes into y"),
    ("parameters written into", StepsItself(), [X], {}, "backward writes into the parameter w"),
    ("an option written into", WritesIntoAnOption(), [X], {"options": {"bias": BIAS}},
     "forward writes into its option 'bias'"),
    ("an option popped", PopsAnOption(), [X], {"options": {"settings": {"seed": 1}}},
     "forward writes into its option 'settings'"),
    ("an option appended to", AppendsToAnOption(), [X], {"options": {"log": []}},
     "forward writes into its option 'log'"),
    ("an option written into by backward", WritesIntoAnOptionInBackward(), [X],
     {"options": lambda: {"weights": {"w": np.ones(4)}}},
     "backward writes into its option 'weights'"),
]
