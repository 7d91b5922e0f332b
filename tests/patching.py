"""A function with one change in its source, and whether the gradient of a loss notices."""

import inspect
import textwrap

import numpy as np

from numformer.verify.jacobians import COMPLEX_STEP
from numformer.verify.tensors import (
    generic_direction, gradients_at, moved_along, named_tensors, output_at)


def patched(function, old, new, **more):
    """The function with `old` replaced by `new` in its source; `more` adds to its globals."""
    function = inspect.unwrap(function)
    source = textwrap.dedent(inspect.getsource(function))
    found = source.count(old)
    assert found == 1, f"{old!r} occurs {found} times in {function.__name__}"
    names = {**function.__globals__, **more}
    exec(source.replace(old, new), names)
    return names[function.__name__]


def slopes(layer, inputs, options=None):
    """The slope of 0.7 times a loss, along a random direction in all parameters: by its backward,
    and by the complex step."""
    tensors = named_tensors(layer, inputs)
    direction = generic_direction(tensors, np.random.default_rng(0))
    gradients = gradients_at(layer, inputs, options, {}, np.float64(0.7))
    moved = output_at(layer, inputs, options, moved_along(tensors, direction, 1j * COMPLEX_STEP))
    found = sum((gradients[name] * direction[name]).sum() for name in tensors)
    return float(found), float(0.7 * moved.imag / COMPLEX_STEP)
