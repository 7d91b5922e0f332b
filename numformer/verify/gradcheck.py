"""Is this backward right? Compare every derivative with the complex step; check the contract."""

import time

import numpy as np

from numformer.verify.adapters import as_layer
from numformer.verify.complex_paths import complex_path_problem
from numformer.verify.contract import Contract, float32_violations
from numformer.verify.jacobians import (
    ComplexUnsafe, backward_jacobian, central_difference_jacobian, complex_step_jacobian)
from numformer.verify.report import Report, Row
from numformer.verify.rounding import Judge, gradient_noise
from numformer.verify.tensors import (
    generic_direction, gradients_at, input_names, moved_along, named_tensors, replaced, sizes)

LAYER_BOUND, MODEL_BOUND = 1e-12, 1e-11             # of the relative error of every derivative
DIFFERENCE_BOUND = 1e-6                             # where only central differences can be compared


def gradcheck(layer, inputs, options=None, bound=LAYER_BOUND, condition=1.0, complex_safe=True,
              float32=False):
    r"""Compare a backward with the complex step, derivative by derivative, and check the contract.

    A derivative is right if

    .. math:: |found - reference| \le b\, (|reference| + 0.01\, s)

    where s is the smaller of two maxima of \|reference\|: over the derivatives of that output with
    respect to that tensor, and over all outputs. Whatever exceeds this is judged by rounding errors
    that are measured: some derivatives are sums that cancel to 0, such as that of the bias of the
    keys, and those of a saturated function have few right digits. If the inputs are at a kink, such
    as ReLU at 0, the derivatives are compared at a point nearby.

    Parameters
    ----------
    layer : Layer, other object, or pair of functions
        Any object with `forward` and `backward` will do: y, saved = forward(...), and
        backward(dy, saved) returns the gradients of the inputs. Its parameters are those of
        `named_parameters`; else its attributes with `data` and `grad`, and each array `w` next to
        an array `dw` of its shape. A pair (f, f_backward) is called in the same way; if f returns y
        alone, as ``f_backward(dy, *inputs)``.
    inputs : sequence of ndarray
        float64 where they are differentiated. The verdict is about these shapes: repeat the check
        for others, such as a batch of 1.
    options : dict, or callable that makes one, optional
        Keyword arguments of `forward`. Random generators in a dict are copied for every call.
    bound : float
        b: 1e-12 for a layer; 1e-11 (`numformer.verify.MODEL_BOUND`) for a whole model.
    condition : float, at least 1
        Condition number of the function, which multiplies the bound: a norm of a nearly constant
        vector amplifies rounding errors.
    complex_safe : bool or None
        False for a function that cannot take complex numbers, such as one in C: its derivatives are
        compared with central differences, to 1e-6, and that is no finding. None if that is to be
        done wherever the complex step cannot be used, with a remark.
    float32 : bool
        Whether to run it in float32, too, where all results must be float32.

    Returns
    -------
    Report
        Its `findings` name what breaks the contract: an exception, an argument written into, state
        kept between calls, a parameter that is held but not named, a backward that is not linear in
        dy, or depends on the layout of arrays, gradients of a wrong number, shape or dtype,
        gradients that do not accumulate, a forward that is not complex-safe. Its `remarks` name
        what is right but deserves care.

    Raises
    ------
    TypeError, ValueError
        If an input is not an array, is complex, or is float32, whose rounding would hide errors; if
        `layer` is neither a layer nor a pair of functions; if the condition is below 1.

    References
    ----------
    Squire and Trapp (1998), eq. 2.

    Examples
    --------
    >>> from numformer.layers import RMSNorm
    >>> report = gradcheck(RMSNorm(3, dtype=np.float64), [np.array([[1.0, 2.0, 4.0]])])
    >>> report.ok, [row.tensor for row in report.rows]
    (True, ['x', 'weight'])

    A plain class:

    >>> class Scale:
    ...     def __init__(self):
    ...         self.w, self.dw = np.array([2.0, 3.0]), np.zeros(2)
    ...     def forward(self, x):
    ...         return self.w * x, x
    ...     def backward(self, dy, saved):
    ...         self.dw += dy * saved
    ...         return dy * self.w
    >>> gradcheck(Scale(), [np.array([1.0, -1.0])]).ok
    True

    A pair of functions:

    >>> def cube(x):
    ...     return x ** 3
    >>> def cube_backward(dy, x):
    ...     return 2 * x ** 2 * dy
    >>> print(gradcheck((cube, cube_backward), [np.array([2.0])]))
    cube: WRONG, by complex step, within 1e-12
    ! x (1,): worst error 3.3e-01 at (0,) for output (0,): found 8, reference 12
    """
    layer = as_layer(layer)
    inputs = [x.copy() if isinstance(x, np.ndarray) else x for x in inputs]
    _check_arguments(layer, inputs, condition)
    note = "" if condition == 1 else f" ({bound:.0e} times the condition number {condition:.0e})"
    report = Report(getattr(layer, "name", type(layer).__name__), bound * condition, note)
    started = time.perf_counter()
    before = [(parameter, parameter.data, parameter.data.copy(), parameter.grad)
              for _, parameter in layer.named_parameters()]
    try:
        with np.errstate(all="ignore"):
            contract = Contract(layer, inputs, options)
            report.findings, report.remarks = contract.violations(), contract.remarks
            if not report.findings:
                _compare_derivatives(report, contract, complex_safe)
            if float32:
                report.findings += float32_violations(layer, inputs, options)
    except Exception as error:
        report.findings.append(f"it raised {type(error).__name__}: {error}")
    finally:
        for parameter, data, copy, grad in before:            # restored, whatever the layer did
            data[...] = copy
            parameter.data, parameter.grad = data, grad
    report.seconds = time.perf_counter() - started
    return report


def _compare_derivatives(report, contract, complex_safe):
    """Fill the report's rows, and add the findings that only derivatives show."""
    layer, inputs, options = contract.layer, contract.inputs, contract.options
    found, reference = backward_jacobian(layer, inputs, options), None
    problem, at_kink = "", False
    if complex_safe is not False:
        try:
            reference = complex_step_jacobian(layer, inputs, options)
            problem, at_kink = complex_path_problem(layer, inputs, options)
        except ComplexUnsafe as error:
            problem = str(error)
    if problem:
        problem = problem if problem.endswith(".") else f"{problem}."
        words = (f"not complex-safe: {problem} Its gradients were compared with central "
                 f"differences, to {DIFFERENCE_BOUND:.0e}")
        if complex_safe is None:
            report.remarks.append(words)
        else:
            report.findings.append(
                f"{words}; if it cannot take complex numbers, pass complex_safe=False")
    jacobian = complex_step_jacobian
    if problem or complex_safe is False:
        jacobian, reference = central_difference_jacobian, None
        report.method, report.bound = "central differences", DIFFERENCE_BOUND
    if reference is None:
        reference = jacobian(layer, inputs, options)
    report.rows, unequal_slopes = _judged_rows(report, contract, inputs, found, reference,
                                                contract.noise)
    if unequal_slopes or at_kink and report.ok:
        report.note += ", next to a kink of the function"
        tensors = named_tensors(layer, inputs)
        direction = generic_direction(tensors, np.random.default_rng(0))
        with replaced(layer, inputs, moved_along(tensors, direction, 0.01)) as moved:
            gradients = gradients_at(layer, moved, options, {}, contract.dy)
            report.rows, _ = _judged_rows(
                report, contract, moved, backward_jacobian(layer, moved, options),
                jacobian(layer, moved, options),
                gradient_noise(layer, moved, options, contract.dy, gradients))
    if not report.rows:
        report.findings.append("nothing was compared: there is no float64 input and no parameter")
    if not _is_linear(contract, found):
        report.findings.append("backward is not linear in dy: for a sum of output gradients it "
                               "must return the sum of their gradients")


def _judged_rows(report, contract, inputs, found, reference, noise):
    """(rows, whether the inputs are at a kink): the worst derivative of each tensor."""
    judge, rows = Judge(contract.layer, inputs, contract.options, found, reference,
                        noise, report.method == "complex step"), []
    for name, J in reference.items():
        if J.size == 0:
            continue
        error, at_kink = judge.unexplained_error(name, report.bound)
        if at_kink:
            return rows, True
        worst = tuple(int(i) for i in np.unravel_index(np.argmax(error), J.shape))
        output, index = worst[:judge.y.ndim], worst[judge.y.ndim:]
        rows.append(Row(name, J.shape[judge.y.ndim:], output, index, float(found[name][worst]),
                        float(J[worst]), float(error[worst])))
    return rows, False


def _is_linear(contract, jacobian):
    """Whether the gradients for a random dy are dy times the backward's Jacobian."""
    dy, most = contract.dy, np.abs(contract.y).max(initial=0)
    tensors = named_tensors(contract.layer, contract.inputs)
    for name, J in jacobian.items():
        sums, terms = (np.tensordot(a, b, axes=np.ndim(dy))
                       for a, b in ((dy, J), (np.abs(dy), np.abs(J))))
        # a saturated function has derivatives far below y / x, but rounding errors of that scale
        saturated = 1e-13 * np.abs(dy).sum() * most / np.median(sizes(tensors[name]))
        allowed = 1e-9 * terms + 1e3 * contract.noise[name] + saturated
        if not (np.abs(contract.copies[name] - sums) <= allowed).all():
            return False
    return True


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
