"""What a layer keeps between calls: on itself, its class, its parts, its module, in a closure."""

import numpy as np

from numformer.parameter import Layer, Parameter

rng = np.random.default_rng(10)
X = rng.standard_normal((3, 4))
HISTORY = []
LAST = {}


class Scale(Layer):
    """y = w x, right in everything."""

    calls = 0

    def __init__(self):
        self.w = Parameter(rng.standard_normal(4))

    def forward(self, x):
        return x * self.w.data, (x,)

    def backward(self, dy, saved):
        (x,) = saved
        self.w.grad += (dy * x).sum(axis=0)
        return dy * self.w.data


class KeepsX(Scale):
    def forward(self, x):
        self.x = x
        return super().forward(x)

    def backward(self, dy, saved):
        return super().backward(dy, (self.x,))


class RunningMean(Scale):
    """Right in what it returns."""

    def __init__(self):
        super().__init__()
        self.running_mean = np.zeros(4)

    def forward(self, x):
        self.running_mean = 0.9 * self.running_mean + 0.1 * x.real.mean(axis=0)
        return super().forward(x)


class RunningMeanInPlace(RunningMean):
    def forward(self, x):
        self.running_mean *= 0.9
        self.running_mean += 0.1 * x.real.mean(axis=0)
        return Scale.forward(self, x)


class Counts(Scale):
    def forward(self, x):
        type(self).calls += 1
        return super().forward(x)


class CountsBackwards(Scale):
    def __init__(self):
        super().__init__()
        self.statistics = {"steps": [0]}

    def backward(self, dy, saved):
        self.statistics["steps"][0] += 1
        return super().backward(dy, saved)


class OfAPart(Scale):
    def __init__(self):
        super().__init__()
        self.parts = [RunningMean()]

    def forward(self, x):
        y, saved = self.parts[0].forward(x)
        return y, (saved, super().forward(y)[1])

    def backward(self, dy, saved):
        return self.parts[0].backward(dy, saved[0])


class OfAModule(Scale):
    def forward(self, x):
        HISTORY.append(x.shape)
        return super().forward(x)


class SavesInAModule(Scale):
    def forward(self, x):
        LAST["x"] = x
        return x * self.w.data, None

    def backward(self, dy, saved):
        return super().backward(dy, (LAST["x"],))


class WrongTheSecondTime(Scale):
    used = False

    def forward(self, x):
        y, saved = super().forward(x)
        if self.used:
            y = 2 * y
        self.used = True
        return y, saved


class WrongBackwardTheSecondTime(Scale):
    used = False

    def backward(self, dy, saved):
        dx = super().backward(dy, saved)
        if self.used:
            dx = 2 * dx
        self.used = True
        return dx


class OwnGenerator(Scale):
    def __init__(self):
        super().__init__()
        self.rng = np.random.default_rng(0)

    def forward(self, x):
        keep = self.rng.random(x.shape) < 0.5
        return x * keep, keep

    def backward(self, dy, keep):
        return dy * keep


class GlobalGenerator(OwnGenerator):
    def forward(self, x):
        keep = np.random.rand(*x.shape) < 0.5
        return x * keep, keep


class StaleCache(Scale):
    """Keeps a result by shape."""

    def __init__(self):
        super().__init__()
        self._means = {}

    def forward(self, x):
        mean = self._means.setdefault(x.shape, x.real.mean())
        return x * self.w.data - mean, (x,)


def with_closure():
    last = []

    def forward(x):
        last[:] = [x]
        return x ** 2

    def backward(dy, x):
        return 2 * last[0] * dy

    return forward, backward


def with_default(x, seen=[]):
    seen.append(x.shape)
    return x ** 2


def with_attribute(x):
    with_attribute.x = x
    return x ** 2


def square_backward(dy, x):
    return 2 * x * dy


KEPT = "it keeps state between calls: "

BUGS = [
    ("x kept for backward", KeepsX(), [X], {}, KEPT + "forward changes self.x"),
    ("a running mean", RunningMean(), [X], {}, KEPT + "forward changes self.running_mean"),
    ("a running mean, in place", RunningMeanInPlace(), [X], {},
     KEPT + "forward changes self.running_mean"),
    ("a counter of the class", Counts(), [X], {}, "forward changes Counts.calls"),
    ("statistics of backward, nested", CountsBackwards(), [X], {},
     KEPT + "backward changes self.statistics['steps'][0]"),
    ("statistics of a part", OfAPart(), [X], {}, "forward changes self.parts[0].running_mean"),
    ("a list of the module", OfAModule(), [X], {}, "forward changes global HISTORY"),
    ("saved in the module", SavesInAModule(), [X], {}, "forward changes global LAST['x']"),
    ("wrong at the second call", WrongTheSecondTime(), [X], {}, "keeps state between calls"),
    ("wrong at the second backward", WrongBackwardTheSecondTime(), [X], {},
     "a second backward with the same saved returned another gradient"),
    ("a generator of the layer", OwnGenerator(), [X], {}, "forward changes self.rng"),
    ("NumPy's global generator", GlobalGenerator(), [X], {}, "keeps state between calls"),
    ("a stale cache", StaleCache(), [X], {}, "that has not been called before"),
    ("a closure", with_closure(), [X], {}, "forward changes last"),
    ("a default argument", (with_default, square_backward), [X], {}, "default 0 of with_default"),
    ("an attribute of a function", (with_attribute, square_backward), [X], {},
     "forward changes with_attribute.x"),
]
