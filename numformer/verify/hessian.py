"""A test of forward and backward together that needs no reference: second derivatives do not depend on their order."""

import warnings

import numpy as np

from numformer.verify.jacobians import COMPLEX_STEP, ComplexUnsafe, aligned, is_differentiable, made


def hessian_symmetry(layer, inputs, options=None, seed=0):
    r"""How far :math:`u^\top H v` and :math:`v^\top H u` differ, for random u and v.

    H is the Hessian of :math:`L = \sum_o w_o y_o`, with random w, by all inputs and parameters at once. Its product with a
    vector is the complex step through the backward:

    .. math:: H v = \mathrm{Im}\, \nabla L(x + \mathrm{i} h v) / h

    If the backward is the gradient of anything at all, H is symmetric. Needs a backward that is complex-safe too; and a
    backward that does not depend on x at all, right or wrong, has H = 0, of which this says nothing.

    Parameters
    ----------
    layer, inputs, options
        As in `complex_step_jacobian`.
    seed : int
        Of u, v and w.

    Returns
    -------
    float
        :math:`|u^\top H v - v^\top H u|`, relative to :math:`|u|\,|Hv| + |v|\,|Hu|`. About 1e-16 for a right backward.

    Raises
    ------
    ComplexUnsafe
        If NumPy warned that an imaginary part was thrown away.

    Examples
    --------
    >>> from numformer.layers import FeedForward
    >>> layer = FeedForward(2, 3, "gelu", np.random.default_rng(0), dtype=np.float64)
    >>> hessian_symmetry(layer, [np.array([[0.3, -1.0]])]) < 1e-14
    True
    """
    rng, inputs, parameters = np.random.default_rng(seed), list(inputs), layer.parameters() if hasattr(layer, "parameters") else []
    places = [k for k, x in enumerate(inputs) if is_differentiable(x)]
    data, grads = [parameter.data for parameter in parameters], [parameter.grad for parameter in parameters]
    shapes = [inputs[k].shape for k in places] + [x.shape for x in data]
    u, v = ([rng.standard_normal(shape) for shape in shapes] for _ in range(2))
    w = rng.standard_normal(np.shape(layer.forward(*inputs, **made(options))[0]))

    def hessian_times(vector):
        step = [1j * COMPLEX_STEP * part for part in vector]
        moved = list(inputs)
        for k, part in zip(places, step):
            moved[k] = inputs[k] + part
        for parameter, x, part in zip(parameters, data, step[len(places):]):
            parameter.data, parameter.grad = x + part, np.zeros(x.shape, complex)
        _, saved = layer.forward(*moved, **made(options))
        gradients = aligned(inputs, layer.backward(w if w.shape else float(w), saved))
        return [np.imag(g) / COMPLEX_STEP for g in [*(gradients[k] for k in places), *(parameter.grad for parameter in parameters)]]

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            Hu, Hv = hessian_times(u), hessian_times(v)
    except np.exceptions.ComplexWarning as error:
        raise ComplexUnsafe(f"{type(layer).__name__}: {error}.") from error
    finally:
        for parameter, x, grad in zip(parameters, data, grads):
            parameter.data, parameter.grad = x, grad
    size = norm(u) * norm(Hv) + norm(v) * norm(Hu)
    return abs(inner(u, Hv) - inner(v, Hu)) / size if size else 0.0


def inner(u, v):
    return float(sum((a * b).sum() for a, b in zip(u, v)))


def norm(u):
    return inner(u, u) ** 0.5
