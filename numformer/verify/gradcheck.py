"""Is this backward right? Compare every derivative with the complex step; check the contract."""

import time

import numpy as np

from numformer.verify.contract import contract_violations
from numformer.verify.errors import largest_magnitude, relative_distance, relative_error
from numformer.verify.jacobians import (
    ComplexUnsafe, backward_jacobian, central_difference_jacobian, complex_step_jacobian,
    directional_difference)
from numformer.verify.report import Report, Row
from numformer.verify.tensors import input_names, named_gradients, named_tensors, resolved

LAYER_BOUND, MODEL_BOUND = 1e-12, 1e-11             # of the relative error of every derivative
DIFFERENCE_BOUND = 1e-6                             # where only central differences can be compared


def gradcheck(layer, inputs, options=None, bound=LAYER_BOUND, condition=1.0):
    r"""Compare a backward with the complex step, derivative by derivative, and check the contract.

    A derivative is right if

    .. math:: |found - reference| \le b\, (|reference| + 0.01 \max|reference|)

    The maximum is taken over all tensors: some derivatives are sums that cancel to exactly 0, so
    that their own size does not bound their rounding error. An example is the bias of the keys:
    softmax does not change if a constant is added to its scores.

    Parameters
    ----------
    layer : Layer, or any object with `forward`, `backward` and `named_parameters`
    inputs : sequence of ndarray
        float64 where they are differentiated.
    options : dict, or callable that makes one, optional
        Keyword arguments of `forward`. A callable is called for every run, so that a random
        generator starts anew each time.
    bound : float
        b: 1e-12 for a layer; 1e-11 (`numformer.verify.MODEL_BOUND`) for a whole model.
    condition : float, at least 1
        Condition number of the function, which multiplies the bound: a norm of a nearly constant
        vector amplifies rounding errors. Above 1, central differences are too inexact to test for
        lost imaginary parts, and that test is left out.

    Returns
    -------
    Report
        Its `findings` name what breaks the contract: an exception, an argument written into, state
        kept between calls, gradients of a wrong number, shape or dtype, gradients that do not
        accumulate, a layer that is not complex-safe.

    Raises
    ------
    TypeError, ValueError
        If an input is not an array, is complex, or is float32, whose rounding would hide errors; if
        the condition is below 1.

    References
    ----------
    Squire and Trapp (1998), eq. 2.

    Examples
    --------
    >>> from numformer.layers import RMSNorm
    >>> report = gradcheck(RMSNorm(3, dtype=np.float64), [np.array([[1.0, 2.0, 4.0]])])
    >>> report.ok, [row.tensor for row in report.rows]
    (True, ['x', 'weight'])
    """
    inputs = [x.copy() if isinstance(x, np.ndarray) else x for x in inputs]
    _check_arguments(layer, inputs, condition)
    note = "" if condition == 1 else f" ({bound:.0e} times the condition number {condition:.0e})"
    report = Report(type(layer).__name__, bound * condition, note)
    started = time.perf_counter()
    before = [(parameter, parameter.data, parameter.data.copy(), parameter.grad)
              for _, parameter in layer.named_parameters()]
    try:
        report.findings += contract_violations(layer, inputs, options)
        if not report.findings:
            _compare_derivatives(report, layer, inputs, options, condition)
    except Exception as error:
        report.findings.append(f"it raised {type(error).__name__}: {error}")
    finally:
        for parameter, data, copy, grad in before:            # restored, whatever the layer did
            data[...] = copy
            parameter.data, parameter.grad = data, grad
    report.seconds = time.perf_counter() - started
    return report


def _compare_derivatives(report, layer, inputs, options, condition):
    """Fill the report's rows, and add the findings that only derivatives show."""
    found = backward_jacobian(layer, inputs, options)
    try:
        reference = complex_step_jacobian(layer, inputs, options)
        unsafe = condition == 1 and loses_imaginary_parts(layer, inputs, options, reference)
        problem = ("the imaginary part is partly lost; look for abs, real, np.var, np.linalg.norm, "
                   "conj." if unsafe else "")
    except ComplexUnsafe as error:
        problem = str(error)
    if problem:
        report.findings.append(f"not complex-safe: {problem} Its gradients were compared with "
                               f"central differences, to {DIFFERENCE_BOUND:.0e}")
        reference = central_difference_jacobian(layer, inputs, options)
        report.method, report.bound = "central differences", DIFFERENCE_BOUND
    y, _ = layer.forward(*inputs, **resolved(options))
    report.rows = worst_rows(found, reference, np.ndim(y))
    if not report.rows:
        report.findings.append("nothing was compared: there is no float64 input and no parameter")
    if relative_distance(*gradients_of_random_dy(layer, inputs, options, found)) > 1e-9:
        report.findings.append("backward is not linear in dy: for a sum of output gradients it "
                               "must return the sum of their gradients")


def loses_imaginary_parts(layer, inputs, options, reference):
    """Whether the complex step contradicts differences along two random directions.

    Two, because one direction may cross a kink of ReLU by chance.
    """
    tensors = named_tensors(layer, inputs)

    def contradicts(seed, step):
        rng = np.random.default_rng(seed)
        directions = {name: rng.standard_normal(x.shape) for name, x in tensors.items()}
        slopes = {name: np.tensordot(J, directions[name], axes=directions[name].ndim)
                  for name, J in reference.items()}
        differences = directional_difference(layer, inputs, options, directions, step)
        return relative_distance(slopes, differences) > 1e-5

    return contradicts(0, 6e-6) and contradicts(1, 1e-6)


def worst_rows(found, reference, output_ndim):
    """The worst derivative of each tensor; the first `output_ndim` axes of a Jacobian are y's."""
    scale, rows = largest_magnitude(reference), []
    for name, J in reference.items():
        if J.size == 0:
            continue
        error = relative_error(found[name], J, scale)
        worst = tuple(int(i) for i in np.unravel_index(np.argmax(error), J.shape))
        rows.append(Row(name, J.shape[output_ndim:], worst[:output_ndim], worst[output_ndim:],
                        float(found[name][worst]), float(J[worst]), float(error[worst])))
    return rows


def gradients_of_random_dy(layer, inputs, options, jacobian):
    """The gradients for a random dy: from one backward, and as dy times the backward's Jacobian."""
    y, saved = layer.forward(*inputs, **resolved(options))
    dy = np.random.default_rng(0).standard_normal(np.shape(y))
    dy = dy if dy.shape else np.float64(-1.7)
    found = named_gradients(layer, inputs, dy, saved)
    return found, {name: np.tensordot(dy, J, axes=np.ndim(dy)) for name, J in jacobian.items()}


def _check_arguments(layer, inputs, condition):
    parameters = ((name, parameter.data) for name, parameter in layer.named_parameters())
    for name, x in [*zip(input_names(layer, inputs), inputs), *parameters]:
        if isinstance(x, np.ndarray) and x.dtype.kind == "f" and x.dtype != np.float64:
            raise TypeError(f"gradcheck: {name} is {x.dtype}, whose rounding would hide errors; "
                            "use float64.")
        if not isinstance(x, np.ndarray) or x.dtype.kind not in "fiub":
            came = f"an array of {x.dtype}" if isinstance(x, np.ndarray) else type(x).__name__
            raise TypeError(f"gradcheck: {name} must be an array of real numbers, but is {came}; "
                            "pass arguments that are not arrays in options.")
    if not condition >= 1:
        raise ValueError(f"gradcheck: condition={condition} must be 1 or more.")
