"""The error of a derivative against the step size: a U for differences, flat for complex steps."""

import numpy as np

from numformer.verify.errors import relative_distance
from numformer.verify.jacobians import (
    backward_jacobian, central_difference_jacobian, complex_step_jacobian)


def step_errors(layer, inputs, options=None, steps=10.0 ** np.arange(-15, 0.5, 0.5)):
    """The worst error of central differences and of the complex step, for many steps.

    The error is the largest difference from the layer's own backward over all tensors, relative to
    the largest derivative.

    Parameters
    ----------
    layer, inputs, options
        As in `complex_step_jacobian`.
    steps : sequence of float

    Returns
    -------
    dict
        `steps`, and the errors `central_difference` and `complex_step` for each of them.

    Examples
    --------
    >>> from numformer.layers import FeedForward
    >>> layer = FeedForward(2, 3, "gelu", np.random.default_rng(0), dtype=np.float64)
    >>> errors = step_errors(layer, [np.array([[0.3, -1.0]])], steps=[1e-12, 1e-5, 1e-1])
    >>> difference = errors["central_difference"]
    >>> bool(difference[1] < difference[0] and difference[1] < difference[2])
    True
    >>> bool(errors["complex_step"].min() < 1e-15)
    True
    """
    reference = backward_jacobian(layer, inputs, options)

    def errors(method):
        return np.array([relative_distance(method(layer, inputs, options, step), reference)
                         for step in steps])

    return {"steps": np.asarray(steps), "central_difference": errors(central_difference_jacobian),
            "complex_step": errors(complex_step_jacobian)}
