"""Derivatives of a whole layer, number by number: by the complex step, by differences, and by its own backward.

The complex step moves one number of one input by ih, and reads the derivative of every output off the imaginary part:

    f(x + ih) = f(x) + ih f'(x) - h^2 f''(x) / 2 - ...        f'(x) = Im f(x + ih) / h

Nothing is subtracted, so nothing cancels, and h may be 1e-30: the error is that of computing f itself. A difference quotient
subtracts two nearly equal numbers: below some step it loses digits faster than it gains them.

References: Squire and Trapp (1998), "Using Complex Variables to Estimate Derivatives of Real Functions", eq. 2; Martins,
Sturdza and Alonso (2003), "The Complex-Step Derivative Approximation", section 2.
"""

import inspect
import warnings

import numpy as np

from numformer.verify.errors import far

COMPLEX_STEP = 1e-30
DIFFERENCE_STEP = 6e-6                                                # the cube root of epsilon: where a central difference is best


class ComplexUnsafe(TypeError):
    """A layer cannot take complex numbers, or loses their imaginary parts: to a real part, an absolute value, a conjugate."""


def complex_step_jacobian(layer, inputs, options=None, step=COMPLEX_STEP):
    r"""The derivative of every output by every input and parameter, good to the last digits.

    .. math:: J_{oi} = \mathrm{Im}\, y_o(x + \mathrm{i} h e_i) / h

    Parameters
    ----------
    layer : Layer, or whatever has `forward` and `named_parameters`
        Must be complex-safe: no `abs`, `conj`, `np.var` or `float` on the way.
    inputs : sequence of ndarray
        float64 where they are differentiated; arrays of integers are passed on as they are.
    options : dict, or callable that makes one, optional
        Keyword arguments of `forward`. A callable is called anew for every run: a random generator must begin anew.
    step : float
        h.

    Returns
    -------
    dict of str to ndarray, shape (*y.shape, *x.shape)
        By the names of `forward`'s arguments, and the dotted names of the parameters.

    Raises
    ------
    ComplexUnsafe
        If the layer raises an exception for complex numbers, if a real result depends on them, or if NumPy warned that an
        imaginary part was thrown away. Parts of it may still be lost without a word: `gradcheck` looks for that.

    Examples
    --------
    >>> from numformer.layers import Identity
    >>> complex_step_jacobian(Identity(), [np.array([1.0, 2.0])])["x"]
    array([[1., 0.],
           [0., 1.]])
    """
    def derivative(run, x, index):
        moved = x.astype(complex)
        moved[index] += 1j * step
        try:
            y = np.asarray(run(moved))
        except Exception as error:
            raise ComplexUnsafe(f"{type(layer).__name__}: given complex numbers it raised {type(error).__name__}: {error}") from error
        if y.dtype.kind == "c":
            return y.imag / step
        moved = x.copy()
        moved[index] += 0.5
        if not np.array_equal(run(moved), y):                         # what does not depend on this number may well be real
            raise ComplexUnsafe(f"{type(layer).__name__}: complex numbers went in, and {y.dtype} came out.")
        return np.zeros(y.shape)

    with warnings.catch_warnings():
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        return _jacobian(layer, inputs, options, derivative)


def central_difference_jacobian(layer, inputs, options=None, step=DIFFERENCE_STEP):
    r"""The same by differences: good to about ten digits at best, but it asks nothing of the layer.

    .. math:: J_{oi} \approx \frac{y_o(x + h e_i) - y_o(x - h e_i)}{2h}

    Parameters and result as in `complex_step_jacobian`.

    Examples
    --------
    >>> from numformer.layers import Identity
    >>> central_difference_jacobian(Identity(), [np.array([1.0, 2.0])])["x"].round(9)
    array([[1., 0.],
           [0., 1.]])
    """
    def derivative(run, x, index):
        above, below = x.copy(), x.copy()
        above[index] += step
        below[index] -= step
        return (np.asarray(run(above)) - np.asarray(run(below))) / (above[index] - below[index])

    return _jacobian(layer, inputs, options, derivative)


def backward_jacobian(layer, inputs, options=None):
    r"""The same by the layer's own backward, a row for every output: :math:`\bar{y} = e_o` gives row o.

    Parameters and result as in `complex_step_jacobian`; gradients that parameters hold already are left as they are.

    Examples
    --------
    >>> from numformer.layers import Identity
    >>> backward_jacobian(Identity(), [np.array([1.0, 2.0])])["x"]
    array([[1., 0.],
           [0., 1.]])
    """
    inputs, kept = list(inputs), [(parameter, parameter.grad) for _, parameter in layer.named_parameters()]
    y, saved = layer.forward(*inputs, **made(options))
    shape = np.shape(y)
    found = {name: np.empty((*shape, *x.shape)) for name, x in named_tensors(layer, inputs).items()}
    try:
        for output in np.ndindex(shape):
            dy = np.zeros(shape)
            dy[output] = 1
            for name, gradient in named_gradients(layer, inputs, dy if shape else np.float64(1), saved).items():
                found[name][output] = gradient
    finally:
        for parameter, grad in kept:
            parameter.grad = grad
    return found


def directional_difference(layer, inputs, options, directions, step):
    """How the output changes along a direction in each tensor, by a central difference: dict of arrays (*y.shape)."""
    def along(run, x, direction):
        return (np.asarray(run(x + step * direction)) - np.asarray(run(x - step * direction))) / (2 * step)

    return _for_each_tensor(layer, inputs, options, lambda name, run, x: along(run, x, directions[name]))


def step_errors(layer, inputs, options=None, steps=10.0 ** np.arange(-15, 0.5, 0.5)):
    """The worst error of central differences for many steps, and of the complex step: the data of a U and of a flat line.

    Error: against the layer's own backward, over all tensors, relative to the largest derivative.

    Returns
    -------
    dict
        `steps`, and the errors `central_difference` and `complex_step` at each of them.

    Examples
    --------
    >>> from numformer.layers import FeedForward
    >>> layer = FeedForward(2, 3, "gelu", np.random.default_rng(0), dtype=np.float64)
    >>> errors = step_errors(layer, [np.array([[0.3, -1.0]])], steps=[1e-12, 1e-5, 1e-1])
    >>> difference = errors["central_difference"]
    >>> bool(difference[1] < difference[0] and difference[1] < difference[2]), bool(errors["complex_step"].min() < 1e-15)
    (True, True)
    """
    truth = backward_jacobian(layer, inputs, options)

    def errors(method):
        return np.array([far(method(layer, inputs, options, step), truth) for step in steps])

    return {"steps": np.asarray(steps), "central_difference": errors(central_difference_jacobian),
            "complex_step": errors(complex_step_jacobian)}


def is_differentiable(x):
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def made(options):
    """The keyword arguments of one call."""
    return options() if callable(options) else options or {}


def input_names(layer, inputs):
    """What `forward` calls its arguments; "input 0", "input 1", ... where it does not say."""
    if hasattr(layer, "input_names"):
        return layer.input_names[:len(inputs)]
    try:
        named = [name for name, parameter in inspect.signature(layer.forward).parameters.items()
                 if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        named = []
    return [named[k] if k < len(named) else f"input {k}" for k in range(len(inputs))]


def named_tensors(layer, inputs):
    """All that is differentiated, by name: arrays of floats among the inputs, then the parameters' data."""
    tensors = {name: x for name, x in zip(input_names(layer, inputs), inputs) if is_differentiable(x)}
    return {**tensors, **{name: parameter.data for name, parameter in layer.named_parameters()}}


def named_gradients(layer, inputs, dy, saved):
    """What one backward gives for each of `named_tensors`; the parameters' gradients begin at 0."""
    parameters = dict(layer.named_parameters())
    for parameter in parameters.values():
        parameter.grad = np.zeros_like(parameter.data)
    gradients = aligned(inputs, layer.backward(dy, saved))
    found = {name: dx for name, x, dx in zip(input_names(layer, inputs), inputs, gradients) if is_differentiable(x)}
    return {**found, **{name: parameter.grad for name, parameter in parameters.items()}}


def aligned(inputs, gradients):
    """What a backward returned, one for every input: those of integer inputs may be missing."""
    gradients = list(gradients) if isinstance(gradients, tuple) else [gradients]
    if len(gradients) == len(inputs):
        return gradients
    differentiable = iter(gradients)
    return [next(differentiable, None) if is_differentiable(x) else None for x in inputs]


def _jacobian(layer, inputs, options, derivative):
    def filled(name, run, x):
        columns = [derivative(run, x, index) for index in np.ndindex(x.shape)]
        J = np.stack(columns, axis=-1) if columns else np.empty((*np.shape(run(x)), 0))
        return J.reshape((*J.shape[:-1], *x.shape))

    return _for_each_tensor(layer, inputs, options, filled)


def _for_each_tensor(layer, inputs, options, found_for):
    """{name: found_for(name, run, x)} for every tensor x, where `run` is the output as a function of x alone."""
    inputs, found = list(inputs), {}
    for k, (name, x) in enumerate(zip(input_names(layer, inputs), inputs)):
        if is_differentiable(x):
            found[name] = found_for(name, lambda moved: layer.forward(*inputs[:k], moved, *inputs[k + 1:], **made(options))[0], x)
    for name, parameter in layer.named_parameters():
        data = parameter.data

        def run(moved):
            parameter.data = moved
            return layer.forward(*inputs, **made(options))[0]

        try:
            found[name] = found_for(name, run, data)
        finally:
            parameter.data = data
    return found
