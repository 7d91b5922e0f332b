"""A test of a backward that needs no reference: second derivatives do not depend on their order."""

import warnings

import numpy as np

from numformer.verify.adapters import as_layer
from numformer.verify.errors import largest
from numformer.verify.jacobians import COMPLEX_STEP, ComplexUnsafe
from numformer.verify.tensors import aligned, is_differentiable, resolved


def hessian_symmetry(layer, inputs, options=None, seed=0):
    r"""The difference between :math:`u^\top H v` and :math:`v^\top H u`, for random u and v.

    H is the Hessian of :math:`L = \sum_o w_o y_o`, with random w, with respect to all inputs and
    parameters at once. Its product with a vector is the complex step through the backward:

    .. math:: H v = \mathrm{Im}\, \nabla L(x + \mathrm{i} h v) / h

    If the backward is the gradient of any function, H is symmetric. The backward must be
    complex-safe, too. A backward that does not depend on x has H = 0, right or wrong: the test
    cannot judge it.

    Parameters
    ----------
    layer : Layer, or pair of functions
        As in `gradcheck`; the parameters are those of `parameters()`, where there is one.
    inputs, options
        As in `complex_step_jacobian`.
    seed : int
        Seed of u, v and w.

    Returns
    -------
    float
        :math:`|u^\top H v - v^\top H u|`, relative to :math:`|u|\,|Hv| + |v|\,|Hu|`. About 1e-16 if
        the backward is right; Inf if its numbers are not finite.

    Raises
    ------
    ComplexUnsafe
        If NumPy warned that an imaginary part was discarded.

    Examples
    --------
    >>> from numformer.layers import FeedForward
    >>> layer = FeedForward(2, 3, "gelu", np.random.default_rng(0), dtype=np.float64)
    >>> hessian_symmetry(layer, [np.array([[0.3, -1.0]])]) < 1e-14
    True

    A pair of functions:

    >>> def gradient(dy, x):
    ...     return 3 * x ** 2 * dy
    >>> hessian_symmetry((lambda x: x ** 3, gradient), [np.array([0.3, -1.0])]) < 1e-14
    True
    """
    layer = as_layer(layer)
    rng, inputs = np.random.default_rng(seed), list(inputs)
    parameters = layer.parameters() if hasattr(layer, "parameters") else []
    differentiable = [k for k, x in enumerate(inputs) if is_differentiable(x)]
    data = [parameter.data for parameter in parameters]
    grads = [parameter.grad for parameter in parameters]
    shapes = [inputs[k].shape for k in differentiable] + [x.shape for x in data]
    u, v = ([rng.standard_normal(shape) for shape in shapes] for _ in range(2))
    w = rng.standard_normal(np.shape(layer.forward(*inputs, **resolved(options))[0]))

    def hessian_times(vector):
        step = [1j * COMPLEX_STEP * part for part in vector]
        moved = list(inputs)
        for k, part in zip(differentiable, step):
            moved[k] = inputs[k] + part
        for parameter, x, part in zip(parameters, data, step[len(differentiable):]):
            parameter.data, parameter.grad = x + part, np.zeros(x.shape, complex)
        _, saved = layer.forward(*moved, **resolved(options))
        by_input = aligned(inputs, layer.backward(w if w.shape else float(w), saved))
        gradients = [by_input[k] for k in differentiable] + [p.grad for p in parameters]
        return [np.imag(gradient) / COMPLEX_STEP for gradient in gradients]

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            Hu, Hv = hessian_times(u), hessian_times(v)
    except np.exceptions.ComplexWarning as error:
        raise ComplexUnsafe(f"{type(layer).__name__}: {error}.") from error
    finally:
        for parameter, x, grad in zip(parameters, data, grads):
            parameter.data, parameter.grad = x, grad
    scale = norm(u) * norm(Hv) + norm(v) * norm(Hu)
    return largest([abs(inner(u, Hv) - inner(v, Hu)) / scale]) if scale else 0.0


def inner(u, v):
    """The inner product of two lists of arrays."""
    return float(sum((a * b).sum() for a, b in zip(u, v)))


def norm(u):
    """The Euclidean norm of a list of arrays."""
    return inner(u, u) ** 0.5
