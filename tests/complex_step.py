"""Derivatives by the complex step: f'(x) = Im f(x + ih) / h, without cancellation (Squire and Trapp 1998)."""

import numpy as np

STEP = 1e-30


def complex_step_gradient(scalar, arrays, k):
    """d scalar(*arrays) / d arrays[k], one element at a time. `scalar` must return a number that is complex-safe."""
    gradient = np.empty(arrays[k].shape)
    for index in np.ndindex(arrays[k].shape):
        moved = arrays[k].astype(complex)
        moved[index] += 1j * STEP
        gradient[index] = scalar(*arrays[:k], moved, *arrays[k + 1:]).imag / STEP
    return gradient


def assert_gradients(found, truth, relative=1e-12, absolute=1e-14):
    """Elementwise |found - truth| <= relative |truth| + absolute max |truth|, for dicts of gradients by name.

    The maximum runs over all gradients of the case. Some are sums that cancel to exactly zero (a key's bias: softmax does
    not feel a constant), so their own size says nothing about the rounding of what was summed.
    """
    assert found.keys() == truth.keys()
    scale = max(np.abs(reference).max(initial=0) for reference in truth.values())
    assert np.isfinite(scale), "the reference is not finite"
    for name, reference in truth.items():
        assert found[name].shape == reference.shape, f"{name}: shape {found[name].shape}, but must have {reference.shape}"
        excess = np.abs(found[name] - reference) - (relative * np.abs(reference) + absolute * scale)
        worst = np.unravel_index(np.argmax(excess), excess.shape)
        assert (excess <= 0).all(), (f"{name}: at {tuple(map(int, worst))} found {found[name][worst]!r}, "
                                     f"but the truth is {reference[worst]!r}")


def parameter_gradients(layer, scalar):
    """The complex step through every parameter of `layer`; `scalar()` runs it."""
    truth = {}
    for name, parameter in layer.named_parameters():
        data = parameter.data

        def of_this(moved):
            parameter.data = moved
            return scalar()

        truth[name] = complex_step_gradient(of_this, [data], 0)
        parameter.data = data
    return truth
