"""The rules of a layer's contract, checked on a running layer; each broken rule is one sentence."""

import copy

import numpy as np

from numformer.verify.adapters import ArrayWithGradient, PlainObject
from numformer.verify.errors import largest_magnitude
from numformer.verify.layouts import layout_violations, shared_memory
from numformer.verify.rounding import gradient_noise
from numformer.verify.state import changed, contents, state, unnamed_parameters
from numformer.verify.tensors import (
    aligned, input_names, is_differentiable, named_gradients, resolved)

# Powers of two: every sum and product in a linear backward scales with them exactly
SCALES = (-2.0 ** 40, 2.0 ** -100)
OTHER_SEED = 20_240_229                              # of random generators in another call


class Contract:
    """The checks of one layer at one set of inputs, in about twenty calls.

    The gradients of the parameters are overwritten; the caller restores them, and the inputs.

    Parameters
    ----------
    layer, inputs, options
        As in `gradcheck`.
    """

    def __init__(self, layer, inputs, options=None):
        self.layer, self.inputs, self.options = layer, inputs, options
        self.names, self.parameters = input_names(layer, inputs), dict(layer.named_parameters())
        self.data = {name: parameter.data for name, parameter in self.parameters.items()}
        self.subject = getattr(layer, "subject", layer)
        self.remarks, self.unused = [], _copy(layer)
        self.before = self._state()

    def violations(self):
        """The rules that are broken, each as a sentence: those of the first check that fails."""
        for check in (self._unnamed, self._first_call, self._results, self._second_backward,
                      self._other_inputs, self._same_again, self._linear, self._layouts):
            found = list(check())
            if found:
                return found
        return []

    def _state(self):
        """What the layer remembers now."""
        return state(self.subject, self.parameters.values())

    def _backward(self, dy, saved):
        """The gradients by name; those of parameters start at 0."""
        return named_gradients(self.layer, self.inputs, dy, saved)

    def _unnamed(self):
        """Parameters that the layer holds, but does not name."""
        for path in unnamed_parameters(self.subject, self.parameters.values()):
            yield (f"the parameter {path} is not among named_parameters: it is neither checked nor "
                   "trained; keep it where they are looked for")

    def _first_call(self):
        """What is written into, and what forward returns."""
        tensors = {**{f"its argument {name}": x for name, x in zip(self.names, self.inputs)},
                   **{f"the parameter {name}": x for name, x in self.data.items()}}
        before = {name: x.copy() for name, x in tensors.items()}
        options = resolved(self.options)
        options_before = contents(options)

        def written(method):
            for name, x in tensors.items():
                if not np.array_equal(x, before[name], equal_nan=x.dtype.kind == "f"):
                    yield f"{method} writes into {name}"
            path = changed(options_before, contents(options))
            if path:
                yield f"{method} writes into its option {path.strip('[]').replace(']', '', 1)}"

        result = self.layer.forward(*self.inputs, **options)
        yield from written("forward")
        if not isinstance(result, tuple) or len(result) != 2:
            yield f"forward must return (y, saved), but returned {type(result).__name__}"
            return
        self.y, self.saved = result
        self.y = np.float64(self.y) if type(self.y) is float else self.y
        if not _is_plain(self.y) or self.y.dtype != np.float64:
            came = getattr(self.y, "dtype", type(self.y).__name__)
            came = came if _is_plain(self.y) else type(self.y).__name__
            yield f"y must be an array of float64, but is {came}"
            return
        self.y_copy, rng = np.copy(self.y), np.random.default_rng(0)
        self.dy = rng.standard_normal(self.y.shape) if self.y.shape else np.float64(1.0)
        dy_copy = np.copy(self.dy)
        self.returned = self._fresh_backward(self.dy, self.saved)
        if not np.array_equal(self.dy, dy_copy):
            yield "backward writes into dy"
        if not np.array_equal(self.y, self.y_copy, equal_nan=True):
            yield "backward writes into y, which forward returned"
        yield from written("backward")

    def _fresh_backward(self, dy, saved):
        """What backward returns; the gradients of parameters start at 0."""
        self.grads = {name: np.zeros_like(data) for name, data in self.data.items()}
        for name, parameter in self.parameters.items():
            parameter.grad = self.grads[name]
        return self.layer.backward(dy, saved)

    def _results(self):
        """Number, types, shapes, dtypes and memory of the gradients."""
        returned = self.returned
        differentiable = sum(map(is_differentiable, self.inputs))
        if isinstance(returned, (tuple, list)) and len(returned) not in (len(self.inputs),
                                                                         differentiable):
            yield f"backward returned {len(returned)} gradients for {len(self.inputs)} inputs"
            return
        gradients = aligned(self.inputs, returned)
        wrong = [*_wrong_input_gradients(self.names, self.inputs, gradients),
                 *_wrong_parameter_gradients(self.data, self.parameters)]
        yield from wrong
        if not wrong:
            self.by_input = {name: dx for name, x, dx in zip(self.names, self.inputs, gradients)
                             if is_differentiable(x)}
            self.found = {**self.by_input,
                          **{name: parameter.grad for name, parameter in self.parameters.items()}}
            self.copies = {name: np.copy(gradient) for name, gradient in self.found.items()}
            findings, self.remarks = shared_memory(self)
            path = changed(self.before, self._state())
            if path:
                self.remarks.append(f"the first call sets {path}: what a call leaves behind may be "
                                    "another's when backward runs; return it in saved")
            yield from findings

    def _second_backward(self):
        """Backward again with the same saved: the same gradient, added to that of parameters."""
        again = dict(zip(self.names, aligned(self.inputs,
                                             self.layer.backward(self.dy, self.saved))))
        sums = {name: parameter.grad for name, parameter in self.parameters.items()}
        fresh = self._backward(self.dy, self.saved)
        for name, first in self.copies.items():
            if not np.array_equal(fresh[name] if name in sums else again[name], first,
                                  equal_nan=True):
                yield (f"a second backward with the same saved returned another gradient of {name}:"
                       " it writes into saved, or keeps state between calls")
                return
        for name, total in sums.items():
            if not np.allclose(total, 2 * self.copies[name], rtol=1e-9, atol=1e-300,
                               equal_nan=True):
                yield (f"the gradient of {name} does not accumulate: a second backward must double "
                       "it (+=, not =)")
            elif total is not self.grads[name] and not isinstance(self.parameters[name],
                                                                  ArrayWithGradient):
                yield (f"backward replaces the array grad of {name} by another; add to it in place "
                       "(grad += ..., not grad = grad + ...)")

    def _other_inputs(self):
        """A call with other inputs changes neither the layer nor the results of earlier calls."""
        before = self._state()
        inputs = self._other_numbers()
        y, saved = self.layer.forward(*inputs, **self._other_options())
        path = changed(before, self._state())
        if path:
            yield f"it keeps state between calls: forward changes {path}"
            return
        self._backward(0.75 * np.flip(self.dy), saved)
        if not np.array_equal(self.y, self.y_copy, equal_nan=True):
            yield "one array for all calls: a later call changed the y of an earlier one"
            return
        for name, dx in self.by_input.items():
            if not np.array_equal(dx, self.copies[name], equal_nan=True):
                yield (f"one array for all calls: a later call changed the gradient of {name} that "
                       "backward had returned")
                return
        path = changed(before, self._state())
        if path:
            hint = ("; if that is a gradient, keep it in a Parameter, or as dw next to an array w"
                    if isinstance(self.layer, PlainObject) else "")
            yield f"it keeps state between calls: backward changes {path}{hint}"
        elif self.unused is not None:
            y_of_unused, _ = self.unused.forward(*inputs, **self._other_options())
            if not np.allclose(y, y_of_unused, 1e-9, 1e-9 * np.abs(y).max(initial=0), True):
                yield ("it keeps state between calls: for other inputs, y is not that of a layer "
                       "that has not been called before")

    def _other_options(self):
        """The same options with other random numbers: a mask that is kept would not change."""
        return {name: np.random.default_rng(OTHER_SEED) if isinstance(value, np.random.Generator)
                else value for name, value in resolved(self.options).items()}

    def _other_numbers(self):
        """Inputs of the same shapes with other numbers; the domain of the function is unknown."""
        for change in (lambda x: 0.75 * np.flip(x), np.flip):
            others = [change(x) if is_differentiable(x) else np.flip(x).copy() for x in self.inputs]
            try:
                self.layer.forward(*others, **resolved(self.options))
                return others
            except Exception:
                continue
        return self.inputs

    def _same_again(self):
        """After other calls, the same arguments give the same results."""
        again = self._backward(self.dy, self.saved)
        y, saved = self.layer.forward(*self.inputs, **resolved(self.options))
        same = np.array_equal(y, self.y_copy, equal_nan=True) and all(
            np.array_equal(again[name], x, equal_nan=True) for name, x in self.copies.items())
        if not same:
            yield ("it keeps state between calls: after another forward, the same arguments gave a "
                   "different result")
        else:
            self.noise = gradient_noise(self.layer, self.inputs, self.options, self.dy, self.copies)

    def differs(self, found, expected, scale=1.0):
        """The first tensor whose gradient is not `scale` times the expected one, up to rounding."""
        for name, gradient in expected.items():
            noise = self.noise[name].max(initial=0) if name in self.noise else 0.0
            underflow = 1e-290 / abs(scale)
            allowed = 1e-9 * largest_magnitude({name: gradient}) + 1e3 * noise + underflow
            others = found[name] / scale
            same = (np.abs(others - gradient) <= allowed) | (others == gradient)
            # derivatives that are NaN are found elsewhere: here they only have to stay so
            if not (same | np.isnan(others) & np.isnan(gradient)).all():
                return name
        return ""

    def _linear(self):
        """Gradients grow with dy, however large or small it is, and are 0 where it is."""
        if not all(np.isfinite(gradient).all() for gradient in self.copies.values()):
            return                                    # the comparison of derivatives shows where
        zero = self._backward(0 * self.dy, self.saved)
        for name, gradient in zero.items():
            if gradient.any():
                yield f"backward is not linear in dy: for dy = 0, the gradient of {name} is not 0"
                return
        for scale in SCALES:
            name = self.differs(self._backward(scale * self.dy, self.saved), self.copies, scale)
            if name:
                yield (f"backward is not linear in dy: {scale:.0e} dy does not give {scale:.0e} "
                       f"times the gradient of {name}; look for clipping, or for numbers set to 0")
                return

    def _layouts(self):
        findings, remarks = layout_violations(self)
        self.remarks += remarks
        return findings


def float32_violations(layer, inputs, options=None):
    """Sentences about results that are not float32 where all inputs and parameters are."""
    names, parameters = input_names(layer, inputs), dict(layer.named_parameters())
    inputs = [x.astype(np.float32) if is_differentiable(x) else x for x in inputs]
    for parameter in parameters.values():
        parameter.data = parameter.data.astype(np.float32)
        parameter.grad = np.zeros_like(parameter.data)
    y, saved = layer.forward(*inputs, **resolved(options))
    results = {"y": y}
    if getattr(y, "dtype", None) == np.float32:
        gradients = aligned(inputs, layer.backward(np.ones_like(y), saved))
        results |= {f"the gradient of {name}": dx for name, x, dx in zip(names, inputs, gradients)
                    if is_differentiable(x)}
        results |= {f"the gradient of {name}": p.grad for name, p in parameters.items()}
    for name, result in results.items():
        came = getattr(result, "dtype", type(result).__name__)
        if came != np.float32:
            yield f"in float32, {name} is {came}: the dtype that goes in must come out"


def _copy(layer):
    """A copy that has not been called; None if the layer cannot be copied."""
    try:
        return copy.deepcopy(layer)
    except Exception:
        return None


def _is_plain(x):
    """Whether x is an array or scalar of NumPy: no matrix, and no masked array."""
    return type(x) is np.ndarray or isinstance(x, np.floating)


def _wrong_input_gradients(names, inputs, gradients):
    """Sentences about the type, shape and dtype of the gradients that backward returned."""
    for name, x, dx in zip(names, inputs, gradients):
        if not is_differentiable(x):
            continue
        if type(dx) is not np.ndarray and not (isinstance(dx, np.floating) and x.ndim == 0):
            yield f"backward returned {type(dx).__name__} as the gradient of {name}"
        elif dx.shape != x.shape:
            yield f"the gradient of {name} has shape {dx.shape}, but {name} has {x.shape}"
        elif dx.dtype != x.dtype:
            yield f"the gradient of {name} is {dx.dtype}, but {name} is {x.dtype}"


def _wrong_parameter_gradients(data, parameters):
    """Sentences about the type, shape and dtype of the parameters' gradients."""
    for (name, x), parameter in zip(data.items(), parameters.values()):
        grad = parameter.grad
        if not isinstance(grad, np.ndarray):
            came = type(grad).__name__
        elif grad.shape != x.shape or grad.dtype != x.dtype:
            came = f"one of shape {grad.shape} and dtype {grad.dtype}"
        else:
            continue
        yield (f"the gradient of {name} must be an array of shape {x.shape} and dtype {x.dtype}, "
               f"but is {came}")
