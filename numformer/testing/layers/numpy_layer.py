"""A layer of somebody's own in NumPy, in any of the usual forms."""

import copy

import numpy as np

from numformer.testing.layers.running import Call, Run, first_output, gradient_of, is_float
from numformer.verify.adapters import positional_names
from numformer.verify.tensors import aligned

# Where the gradient of an array w may be: attributes next to it, and dicts of them by its name
FORMS = ("d{}", "grad_{}", "{}_grad", "g{}", "d_{}", "{}")
TABLES = ("params", "parameters", "weights")
GRADIENT_TABLES = ("grads", "gradients", "grad")


class NumpyLayer:
    """An object with `forward` and `backward`, of which a copy runs on weights given by name.

    `forward` returns y, or y and what `backward` takes besides dy; `backward` returns the gradients
    of the inputs. A parameter is an array `w` whose gradient is found after a backward: as `dw`,
    `grad_w`, `w_grad`, in a dict `grads` for one in a dict `params`, in a list `dw` for one in a
    list `w`; or anything with `data` and `grad`. Parts, also in lists and dicts, are objects with a
    `forward`.

    Parameters
    ----------
    layer : object
    call : callable, optional
        Takes the layer and the inputs, in place of its forward.
    """

    transposes = False

    def __init__(self, layer, call=None):
        self.layer = layer
        self.call = call or (lambda layer, *inputs: layer.forward(*inputs))
        self.name = type(layer).__name__
        self.weights = {name: slot.data.astype(np.float64) for name, slot in slots_of(layer)}
        kinds = [slot.data.dtype.name for _, slot in slots_of(layer)]
        self.dtype = min(kinds, key=lambda name: np.finfo(name).bits, default="float64")

    def axes(self, name):
        """Nothing is known of them but their sizes."""

    def prepare(self, inputs, dy):
        """Run once, and take as parameters what has a gradient afterwards.

        Returns
        -------
        list of str
            The arrays that have none.
        """
        found = self.run(self.weights, inputs, dy).parameters
        without = [name for name, gradient in found.items() if gradient is None]
        self.weights = {name: x for name, x in self.weights.items() if name not in without}
        return without

    def run(self, weights, inputs, dy):
        """The `Run` on these weights."""
        layer, calls = copy.deepcopy(self.layer), []
        slots = dict(slots_of(layer))
        for name, x in weights.items():
            slots[name].data[...] = x
        for slot in slots.values():
            slot.clear()
        for name, part in parts_of(layer):
            _record(name, part, calls)
        inputs = [x.astype(self.dtype) if is_float(x) else x for x in inputs]
        given = [x.copy() for x in inputs]
        returned = self.call(layer, *given)
        for k, (x, before) in enumerate(zip(given, inputs)):
            if not np.array_equal(x, before):
                raise AssertionError(f"{self.name}: it writes into its input {k}; work on a copy "
                                     "or a new array.")
        pair = isinstance(returned, tuple) and len(returned) == 2
        gradient = np.asarray(gradient_of(first_output(returned), dy))
        y = np.asarray(first_output(returned))
        gradient = gradient.astype(y.dtype)
        takes = positional_names(layer.backward)
        dx = layer.backward(gradient, returned[1]) if pair and len(takes) != 1 \
            else layer.backward(gradient)
        of_inputs = aligned(inputs, () if dx is None else dx)
        found = [np.asarray(each, float) if is_float(x) and each is not None else None
                 for x, each in zip(inputs, of_inputs)]
        return Run(np.asarray(y, float), found,
                   {name: slots[name].gradient() for name in weights}, calls)


class _Slot:
    """An array of a part of a layer: an attribute, or in a dict of arrays that is one."""

    def __init__(self, part, key, table=None):
        self.part, self.key, self.table = part, key, table

    @property
    def data(self):
        own = vars(self.part)
        x = own[self.table][self.key] if self.table else own[self.key]
        return x if isinstance(x, np.ndarray) else x.data

    def set(self, value):
        """Put another array in its place."""
        own = vars(self.part)
        if self.table:
            own[self.table][self.key] = value
        elif isinstance(own[self.key], np.ndarray):
            own[self.key] = value
        else:
            own[self.key].data = value

    def clear(self):
        """Set the gradients to zero that are there before a backward."""
        for found in self._gradients():
            found[...] = 0

    def gradient(self):
        """The first gradient that has the shape of the array; None if there is none."""
        return next((np.array(found, float) for found in self._gradients()), None)

    def _gradients(self):
        own = vars(self.part)
        if not self.table and not isinstance(own[self.key], np.ndarray):
            if is_float(own[self.key].grad):
                yield own[self.key].grad
            return
        if isinstance(self.key, int):                 # in a list, next to one of its gradients
            lists = [own.get(form.format(self.table)) for form in FORMS[:-1]]
            lists += [own.get(table) for table in GRADIENT_TABLES]
            yield from (x[self.key] for x in lists if isinstance(x, list)
                        and len(x) > self.key and is_float(x[self.key])
                        and x[self.key].shape == self.data.shape)
            return
        places = [own.get(form.format(self.key)) for form in FORMS[:-1]]
        for table in GRADIENT_TABLES:
            if isinstance(own.get(table), dict):
                places += [own[table].get(form.format(self.key)) for form in reversed(FORMS)]
        yield from (x for x in places if is_float(x) and x.shape == self.data.shape)


def slots_of(layer):
    """(dotted name, _Slot) of all arrays of floats that may be parameters."""
    for prefix, part in [("", layer), *parts_of(layer)]:
        dot, own = f"{prefix}." if prefix else "", vars(part)
        gradients = {form.format(key) for key in own for form in FORMS[:-1]} & own.keys()
        for key, x in own.items():
            if key in gradients:
                continue
            if is_float(x) or is_float(getattr(x, "data", None)) and hasattr(x, "grad"):
                yield dot + key, _Slot(part, key)
            elif isinstance(x, list) and key not in GRADIENT_TABLES and x and all(
                    map(is_float, x)):
                yield from ((f"{dot}{key}.{k}", _Slot(part, k, key)) for k in range(len(x)))
            elif key in TABLES and isinstance(x, dict):
                yield from ((f"{dot}{key}.{name}", _Slot(part, name, key))
                            for name, array in x.items() if is_float(array))


def parts_of(layer):
    """(dotted name, object) of everything below with a forward, once each."""
    seen = {id(layer)}

    def walk(value, name):
        if isinstance(value, dict):
            children = [(f"{name}.{key}", x) for key, x in value.items()]
        elif isinstance(value, (list, tuple)):
            children = [(f"{name}.{k}", x) for k, x in enumerate(value)]
        elif callable(getattr(value, "forward", None)) and not isinstance(value, type):
            if id(value) in seen:
                return
            seen.add(id(value))
            yield name, value
            children = [(f"{name}.{key}", x) for key, x in vars(value).items()]
        else:
            return
        for child, x in children:
            yield from walk(x, child)

    for key, x in list(vars(layer).items()):
        yield from walk(x, key)


def _record(name, part, calls):
    """Keep what goes through a part of a copy."""
    forward = part.forward

    def recording(*inputs, **options):
        returned = forward(*inputs, **options)
        y = first_output(returned)
        if isinstance(y, np.ndarray):
            calls.append(Call(name, [x for x in inputs if isinstance(x, np.ndarray)], y.copy()))
        return returned

    part.forward = recording
