r"""The Jacobian of a layer, three ways: complex step, central differences, and its own backward.

The complex step adds ih to one number of one input and reads the derivative of every output from
the imaginary part:

    f(x + ih) = f(x) + ih f'(x) - h^2 f''(x) / 2 - ...        f'(x) = Im f(x + ih) / h

Nothing is subtracted, so nothing cancels, and h may be 1e-30: the error is that of computing f
itself. A difference quotient subtracts two nearly equal numbers: below some step it loses digits
faster than it gains them.

References: Squire and Trapp (1998), "Using Complex Variables to Estimate Derivatives of Real
Functions", eq. 2; Martins, Sturdza and Alonso (2003), "The Complex-Step Derivative Approximation",
section 2.
"""

import warnings

import numpy as np

from numformer.verify.tensors import (
    input_names, is_differentiable, named_gradients, named_tensors, resolved, sizes)

COMPLEX_STEP = 1e-30
DIFFERENCE_STEP = 6e-6              # the cube root of epsilon: best for a central difference


class ComplexUnsafe(TypeError):
    """A layer cannot take complex numbers, or drops their imaginary part: by abs, real or conj."""


def complex_step_jacobian(layer, inputs, options=None, step=COMPLEX_STEP):
    r"""Derivatives of all outputs with respect to all inputs and parameters, to machine precision.

    .. math:: J_{oi} = \mathrm{Im}\, y_o(x + \mathrm{i} h e_i) / h

    Parameters
    ----------
    layer : Layer, or any object with `forward` and `named_parameters`
        Must be complex-safe: no `abs`, `conj`, `np.var` or `float` on the data path.
    inputs : sequence of ndarray
        float64 where they are differentiated; integer arrays are passed on unchanged.
    options : dict, or callable that makes one, optional
        Keyword arguments of `forward`. A callable is called for every run, so that a random
        generator starts again each time.
    step : float
        h.

    Returns
    -------
    dict of str to ndarray, shape y.shape + x.shape
        Keys are the names of `forward`'s arguments and the dotted names of the parameters.

    Raises
    ------
    ComplexUnsafe
        If the layer raises an exception for complex numbers, if it returns a real result that
        depends on them, or if NumPy warned that an imaginary part was discarded. A part of it may
        still be lost silently: `gradcheck` tests for that.

    Examples
    --------
    >>> from numformer.layers import Identity
    >>> complex_step_jacobian(Identity(), [np.array([1.0, 2.0])])["x"]
    array([[1., 0.],
           [0., 1.]])
    """
    owner = getattr(layer, "name", type(layer).__name__)

    def derivative(run, x, index):
        moved = x.astype(complex)
        moved[index] += 1j * step
        try:
            y = np.asarray(run(moved))
        except Exception as error:
            raise ComplexUnsafe(f"{owner}: given complex numbers it raised "
                                f"{type(error).__name__}: {error}") from error
        if y.dtype.kind == "c":
            return y.imag / step
        moved = x.copy()
        moved[index] += 0.5
        if not np.array_equal(run(moved), y):         # an output independent of x may be real
            raise ComplexUnsafe(f"{owner}: complex numbers went in, and {y.dtype} came out.")
        return np.zeros(y.shape)

    with warnings.catch_warnings():
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        return _jacobian(layer, inputs, options, derivative)


def central_difference_jacobian(layer, inputs, options=None, step=DIFFERENCE_STEP):
    r"""The same by central differences: ten digits at best, but any layer will do.

    .. math:: J_{oi} \approx \frac{y_o(x + h e_i) - y_o(x - h e_i)}{2h}

    h is `step` times the size of the number, or the median size of its tensor if that is larger.
    Parameters and result as in `complex_step_jacobian`.

    Examples
    --------
    >>> from numformer.layers import Identity
    >>> central_difference_jacobian(Identity(), [np.array([1.0, 2.0])])["x"].round(9)
    array([[1., 0.],
           [0., 1.]])
    """
    def derivative(run, x, index):
        above, below, size = x.copy(), x.copy(), sizes(x)
        above[index] += step * max(size[index], np.median(size))
        below[index] -= step * max(size[index], np.median(size))
        return (np.asarray(run(above)) - np.asarray(run(below))) / (above[index] - below[index])

    return _jacobian(layer, inputs, options, derivative)


def backward_jacobian(layer, inputs, options=None):
    r"""The same from the layer's own backward: :math:`\bar{y} = e_o` gives row o.

    Parameters and result as in `complex_step_jacobian`; gradients that parameters hold are kept.

    Examples
    --------
    >>> from numformer.layers import Identity
    >>> backward_jacobian(Identity(), [np.array([1.0, 2.0])])["x"]
    array([[1., 0.],
           [0., 1.]])
    """
    inputs = list(inputs)
    kept = [(parameter, parameter.grad) for _, parameter in layer.named_parameters()]
    y, saved = layer.forward(*inputs, **resolved(options))
    shape = np.shape(y)
    found = {name: np.empty((*shape, *x.shape)) for name, x in named_tensors(layer, inputs).items()}
    try:
        for output in np.ndindex(shape):
            dy = np.zeros(shape)
            dy[output] = 1
            gradients = named_gradients(layer, inputs, dy if shape else np.float64(1), saved)
            for name, gradient in gradients.items():
                found[name][output] = gradient
    finally:
        for parameter, grad in kept:
            parameter.grad = grad
    return found


def directional_difference(layer, inputs, options, directions, step):
    """The derivative of the output along a direction in each tensor: dict of arrays (*y.shape)."""
    def along(name, run, x):
        move = step * directions[name]
        return (np.asarray(run(x + move)) - np.asarray(run(x - move))) / (2 * step)

    return _for_each_tensor(layer, inputs, options, along)


def _jacobian(layer, inputs, options, derivative):
    def filled(name, run, x):
        columns = [derivative(run, x, index) for index in np.ndindex(x.shape)]
        J = np.stack(columns, axis=-1) if columns else np.empty((*np.shape(run(x)), 0))
        return J.reshape((*J.shape[:-1], *x.shape))

    return _for_each_tensor(layer, inputs, options, filled)


def _for_each_tensor(layer, inputs, options, found_for):
    """{name: found_for(name, run, x)} for every tensor x; `run` maps x to the output."""
    inputs, found = list(inputs), {}
    for k, (name, x) in enumerate(zip(input_names(layer, inputs), inputs)):
        def run(moved):
            return layer.forward(*inputs[:k], moved, *inputs[k + 1:], **resolved(options))[0]

        if is_differentiable(x):
            found[name] = found_for(name, run, x)
    for name, parameter in layer.named_parameters():
        data = parameter.data

        def run(moved):
            parameter.data = moved
            return layer.forward(*inputs, **resolved(options))[0]

        try:
            found[name] = found_for(name, run, data)
        finally:
            parameter.data = data
    return found
