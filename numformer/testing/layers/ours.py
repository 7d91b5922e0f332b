"""A layer of numformer: the reference, whose sublayers are recorded as they run."""

import copy

import numpy as np

from numformer.testing.layers.running import Call, Run, is_float
from numformer.verify.tensors import aligned, resolved


class OurLayer:
    """A `Layer` that runs on weights given by name, in float64 or float32; it stays as it was.

    Parameters
    ----------
    layer : Layer
    options : dict, or callable that makes one, optional
        Keyword arguments of its forward.
    """

    def __init__(self, layer, options=None):
        self.layer, self.options = layer, options
        self.name = type(layer).__name__
        self.shapes = {name: parameter.data.shape for name, parameter in layer.named_parameters()}
        self.owners = {f"{name}.{key}" if name else key: part for name, part in layer.named_layers()
                       for key in vars(part)}
        self.sublayers = [name for name, part in layer.named_layers() if hasattr(part, "forward")]

    def run(self, weights, inputs, dy, dtype=np.float64, recorded=False, noisy=None):
        """The `Run` on these weights.

        Where it is recorded, every sublayer runs by itself: none is part of a larger function.
        `noisy`, a function of an array, is then applied to what each sublayer returns, and to the
        gradient of it.
        """
        layer, calls = copy.deepcopy(self.layer), []
        for _, part in layer.named_layers():
            for key, value in vars(part).items():
                if is_float(value):
                    setattr(part, key, value.astype(dtype))
        for name, parameter in layer.named_parameters():
            parameter.data = weights[name].astype(dtype)
            vars(parameter).pop("grad", None)
        if recorded:
            _record(layer, calls, noisy or (lambda x: x))
        inputs = [x.astype(dtype) if is_float(x) else x for x in inputs]
        y, saved = layer.forward(*inputs, **resolved(self.options))
        found = layer.backward(dy(np.shape(y)).astype(dtype) if np.shape(y) else dy(()), saved)
        gradients = aligned(inputs, found if found is not None else ())
        return Run(np.asarray(y), [dx if is_float(x) else None for x, dx in zip(inputs, gradients)],
                   {name: parameter.grad for name, parameter in layer.named_parameters()}, calls)


def _record(layer, calls, noisy):
    """Make every sublayer of a copy one of a subclass that keeps what goes through it.

    Faster functions for several layers at once take only the exact classes, so none is used.
    """
    for name, part in layer.named_layers():
        if hasattr(part, "forward") and hasattr(part, "backward"):
            part.__class__ = _recording(type(part), name, calls, noisy)


def _recording(kind, name, calls, noisy):
    def forward(self, *inputs, **options):
        if hasattr(kind, "hidden_units"):             # its linear maps are in one function
            for part in ("gate", "hidden"):
                if hasattr(self, part):
                    getattr(self, part).forward(*inputs)
            self.output.forward(self.hidden_units(*inputs))
        y, saved = kind.forward(self, *inputs, **options)
        if isinstance(y, np.ndarray):
            y = noisy(y)
            call = Call(name, [x for x in inputs if isinstance(x, np.ndarray)], y)
            calls.append(call)
            running.append((saved, call))             # alive, so that no other has its address
        return y, saved

    def backward(self, dy, saved, *more, **options):
        for tuple_of, call in running:
            if tuple_of is saved and isinstance(dy, np.ndarray):
                call.gradient = dy.copy()
        dy = noisy(dy) if is_float(dy) else dy
        return kind.backward(self, dy, saved, *more, **options)

    running = []
    return type(kind.__name__, (kind,), {"forward": forward, "backward": backward})


class OwnLayer:
    """Somebody's own subclass of `Layer`, compared as a module: the other side of a comparison."""

    transposes = False

    def __init__(self, layer, call=None):
        if call is not None:
            raise TypeError("assert_layer_matches: call= is for modules of other libraries; of a "
                            "Layer the forward is called.")
        self.runner = OurLayer(layer)
        self.name = self.runner.name
        data = {name: parameter.data for name, parameter in layer.named_parameters()}
        self.weights = {name: x.astype(np.float64) for name, x in data.items()}
        self.dtype = min((x.dtype.name for x in data.values()), key=lambda name: name == "float64",
                         default="float64")

    def axes(self, name):
        """Nothing is known of them but their sizes."""

    def run(self, weights, inputs, dy):
        """The `Run` on these weights."""
        return self.runner.run(weights, inputs, dy, self.dtype, recorded=True)
