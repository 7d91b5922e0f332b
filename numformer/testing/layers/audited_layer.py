"""A layer of somebody's own in NumPy, seen as one of the contract, for `gradcheck`.

Its gradients are found as `numpy_layer` finds them, whether a backward sets or adds them. A forward
runs on a copy of the layer, and its `saved` is that copy, with what the layer itself returned.
"""

import copy

import numpy as np

from numformer.testing.layers.numpy_layer import slots_of
from numformer.testing.layers.running import is_float
from numformer.verify.adapters import cut, joined, positional_names
from numformer.verify.tensors import resolved


class AuditedLayer:
    """An object with `forward(x)` and `backward(dy)`, or one whose forward returns (y, saved).

    Parameters
    ----------
    layer : object
        Its parameters are the arrays whose gradients are found after a backward, as `NumpyLayer`
        finds them. Those in float32 become float64.
    inputs : list of ndarray
        For a first run.
    options : dict
        Keyword arguments of its forward.
    """

    def __init__(self, layer, inputs, options=None):
        options = options or {}
        self.keeps, self.name = keeps(layer, inputs, options), type(layer).__name__
        self.layer, self.single = copy.deepcopy(layer), []
        for name, slot in slots_of(self.layer):
            if slot.data.dtype != np.float64:
                self.single.append(name)
                slot.set(slot.data.astype(np.float64))
        self.input_names = positional_names(layer.forward)
        self.subject = self.layer.forward, self.layer.backward       # where state may be kept
        first = copy.deepcopy(self.layer)
        y, saved = self._forward(first, inputs, options)
        self._backward(first, np.ones_like(y), saved)
        with_gradient = {name for name, slot in slots_of(first) if slot.gradient() is not None}
        self.slots = {name: slot for name, slot in slots_of(self.layer) if name in with_gradient}
        self._parameters = {name: _Kept(slot) for name, slot in self.slots.items()}

    def forward(self, *inputs, **options):
        used = copy.deepcopy(self.layer)
        y, saved = self._forward(used, inputs, options)
        return y, (used, saved)

    def backward(self, dy, saved):
        used, saved = copy.deepcopy(saved)
        found = dict(slots_of(used))
        for slot in found.values():
            slot.clear()
        dx = self._backward(used, dy, saved)
        for name, parameter in self._parameters.items():
            gradient = found[name].gradient()
            if gradient is not None:
                parameter.grad += gradient
        return dx

    def remembers(self, inputs, options=None):
        """What a second call gives otherwise than the first, in words; "" if nothing does."""
        used, found = copy.deepcopy(self.layer), []
        for _ in range(2):
            for _, slot in slots_of(used):
                slot.clear()
            y, saved = self._forward(used, [np.copy(x) for x in inputs], resolved(options))
            y = np.copy(y)
            self._backward(used, np.ones_like(y), saved)
            found.append([y, *(slot.gradient() for name, slot in slots_of(used)
                               if name in self.slots)])
        names = ["y", *(f"the gradient of {name}" for name in self.slots)]
        return next((name for name, x, again in zip(names, *found)
                     if not np.array_equal(x, again, equal_nan=True)), "")

    def _forward(self, used, inputs, options):
        """(y, saved), where y is all outputs as one array."""
        returned = used.forward(*inputs, **options)
        if self.keeps:
            return (returned[0] if isinstance(returned, tuple) else returned), None
        return joined(returned)

    def _backward(self, used, dy, saved):
        return used.backward(dy) if self.keeps else used.backward(*cut(dy, saved))

    def named_parameters(self):
        return self._parameters.items()


class _Kept:
    """A parameter: an array of a layer, and a gradient that is added up here."""

    def __init__(self, slot):
        self.slot = slot
        self.grad = np.zeros(slot.data.shape)

    data = property(lambda self: self.slot.data, lambda self, value: self.slot.set(value))


def keeps(layer, inputs, options):
    """Whether a layer keeps what its backward needs on itself: that takes dy alone."""
    names = positional_names(layer.backward)
    if len(names) > 1:
        return False
    returned = copy.deepcopy(layer).forward(*inputs, **options)
    return len(names) == 1 or not (isinstance(returned, tuple) and len(returned) == 2)


def without_gradient(layer, named, run):
    """Arrays of a layer that are no parameters, but on which y depends.

    Parameters
    ----------
    layer : object
    named : set of str
        Its parameters.
    run : callable
        Takes a layer and returns y.
    """
    found, y = [], run(copy.deepcopy(layer))
    for name, slot in slots_of(layer):
        if name in named or not is_float(slot.data) or not slot.data.size:
            continue
        other = copy.deepcopy(layer)
        dict(slots_of(other))[name].data[...] += 0.1
        if np.shape(run(other)) == np.shape(y) and not np.array_equal(run(other), y, True):
            found.append(name)
    return found
