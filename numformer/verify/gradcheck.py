"""Is this backward right? Every derivative of a layer against the complex step, and the rules of the house beside."""

import time
from dataclasses import dataclass, field

import numpy as np

from numformer.verify.errors import far, largest, relative_error
from numformer.verify.jacobians import (
    ComplexUnsafe, backward_jacobian, central_difference_jacobian, complex_step_jacobian, directional_difference, input_names, made,
    named_gradients, named_tensors)
from numformer.verify.rules import broken_rules

LAYER, MODEL = 1e-12, 1e-11                                           # relative bounds; a hundredth of them on the largest number


@dataclass(frozen=True)
class Row:
    """What was found of one tensor: the derivative by it that is furthest from the truth.

    `index` is the place of that derivative in the Jacobian: first of the output, then of the tensor. `error` is
    :math:`|found - truth| / (|truth| + 0.01 \\max|truth|)`, the maximum over all tensors.
    """

    tensor: str
    shape: tuple
    output_index: tuple
    index: tuple
    found: float
    truth: float
    error: float


@dataclass
class Report:
    """All that `gradcheck` says of a layer; as text, a small table.

    `findings` are broken rules, in words; `rows` one for each tensor; `bound` what the errors were held against.
    """

    name: str
    bound: float
    note: str = ""
    method: str = "complex step"
    rows: list = field(default_factory=list)
    findings: list = field(default_factory=list)
    seconds: float = 0.0

    @property
    def worst(self):
        """The row with the largest error; None where nothing could be compared."""
        return max(self.rows, key=lambda row: row.error, default=None)

    @property
    def ok(self):
        return not self.findings and all(row.error <= self.bound for row in self.rows)

    def __str__(self):
        lines = [f"{self.name}: {'right' if self.ok else 'WRONG'}, by {self.method}, within {self.bound:.0e}{self.note}"]
        for row in self.rows:
            mark = "  " if row.error <= self.bound else "! "
            lines.append(f"{mark}{row.tensor} {row.shape}: worst error {row.error:.1e} at {row.index} for output {row.output_index}: "
                         f"found {row.found:.17g}, truth {row.truth:.17g}")
        return "\n".join(lines + [f"! {finding}" for finding in self.findings])


def gradcheck(layer, inputs, options=None, bound=LAYER, condition=1.0):
    r"""Compare a backward with the complex step, derivative by derivative, and see whether the layer keeps the rules.

    A derivative is right where :math:`|found - truth| \le b\, (|truth| + 0.01 \max|truth|)`. The maximum is that over all
    tensors: some derivatives are sums that cancel to exactly 0 (a key's bias: softmax does not feel a constant), so their
    own size says nothing of what rounding did.

    Parameters
    ----------
    layer : Layer, or whatever has `forward`, `backward` and `named_parameters`
    inputs : sequence of ndarray
        float64 where they are differentiated.
    options : dict, or callable that makes one, optional
        Keyword arguments of `forward`; a callable is called anew for every run, as a random generator must begin anew.
    bound : float
        b: 1e-12 for a layer; 1e-11 (`numformer.verify.MODEL`) for a whole model.
    condition : float, at least 1
        Multiplies the bound where the function itself multiplies rounding errors: a norm of a vector that hardly varies.
        (Differences are no use there, so that lost imaginary parts are not looked for.)

    Returns
    -------
    Report
        Its `findings` name what breaks a rule: an exception, an argument written into, state kept between calls, a gradient
        of a wrong number, shape or dtype, one that does not add up, a layer that is not complex-safe.

    Raises
    ------
    TypeError, ValueError
        If an input is no array, complex, or float32, whose own rounding would hide errors; if the condition is below 1.

    References
    ----------
    Squire and Trapp (1998), eq. 2.

    Examples
    --------
    >>> from numformer.layers import RMSNorm
    >>> report = gradcheck(RMSNorm(3, dtype=np.float64), [np.array([[1.0, 2.0, 4.0]])])
    >>> report.ok, [row.tensor for row in report.rows]
    (True, ['x', 'gain'])
    """
    inputs = [x.copy() if isinstance(x, np.ndarray) else x for x in inputs]
    _check_arguments(layer, inputs, condition)
    note = "" if condition == 1 else f" ({bound:.0e} times the condition number {condition:.0e})"
    report = Report(type(layer).__name__, bound * condition, note)
    started, before = time.perf_counter(), {name: (parameter, parameter.data, parameter.data.copy(), parameter.grad)
                                            for name, parameter in layer.named_parameters()}
    try:
        report.findings += broken_rules(layer, inputs, options)
        if not report.findings:
            _compare_derivatives(report, layer, inputs, options, condition)
    except Exception as error:
        report.findings.append(f"it raised {type(error).__name__}: {error}")
    finally:
        for parameter, data, copy, grad in before.values():           # as they were, whatever the layer did
            data[...] = copy
            parameter.data, parameter.grad = data, grad
    report.seconds = time.perf_counter() - started
    return report


def _compare_derivatives(report, layer, inputs, options, condition):
    """Fill the report's rows, and add findings that only derivatives show."""
    found = backward_jacobian(layer, inputs, options)
    try:
        truth = complex_step_jacobian(layer, inputs, options)
        unsafe = condition == 1 and loses_imaginary_parts(layer, inputs, options, truth)
        trouble = "some of an imaginary part is lost on the way: look for abs, real, np.var, np.linalg.norm, conj." if unsafe else ""
    except ComplexUnsafe as error:
        trouble = str(error)
    if trouble:
        report.findings.append(f"not complex-safe: {trouble} Its gradients were compared with differences, to 1e-6")
        truth, report.method, report.bound = central_difference_jacobian(layer, inputs, options), "central differences", 1e-6
    report.rows = compare(found, truth, np.ndim(layer.forward(*inputs, **made(options))[0]))
    if not report.rows:
        report.findings.append("nothing was compared: no input of float64 numbers, and no parameter")
    if far(*combined(layer, inputs, options, found)) > 1e-9:
        report.findings.append("backward is not linear in dy: of a sum of output gradients it must give the sum")


def loses_imaginary_parts(layer, inputs, options, truth):
    """Whether the complex step contradicts differences along two random directions: by chance one may cross a kink of ReLU."""
    tensors = named_tensors(layer, inputs)

    def contradicts(seed, step):
        rng = np.random.default_rng(seed)
        directions = {name: rng.standard_normal(x.shape) for name, x in tensors.items()}
        slopes = {name: np.tensordot(J, directions[name], axes=directions[name].ndim) for name, J in truth.items()}
        return far(slopes, directional_difference(layer, inputs, options, directions, step)) > 1e-5

    return contradicts(0, 6e-6) and contradicts(1, 1e-6)


def compare(found, truth, output_axes):
    """A `Row` for each tensor of two dicts of Jacobians, whose first axes are those of the output."""
    scale, rows = largest(truth), []
    for name, J in truth.items():
        if J.size == 0:
            continue
        error = relative_error(found[name], J, scale)
        worst = tuple(int(i) for i in np.unravel_index(np.argmax(error), J.shape))
        rows.append(Row(name, J.shape[output_axes:], worst[:output_axes], worst[output_axes:], float(found[name][worst]), float(J[worst]),
                        float(error[worst])))
    return rows


def combined(layer, inputs, options, jacobian):
    """What the backward gives for a random dy, and what the rows of its own Jacobian, each times its dy, add up to."""
    y, saved = layer.forward(*inputs, **made(options))
    dy = np.random.default_rng(0).standard_normal(np.shape(y))
    dy = dy if dy.shape else np.float64(-1.7)
    found = named_gradients(layer, inputs, dy, saved)
    return found, {name: np.tensordot(dy, J, axes=np.ndim(dy)) for name, J in jacobian.items()}


def _check_arguments(layer, inputs, condition):
    for name, x in [*zip(input_names(layer, inputs), inputs), *((n, p.data) for n, p in layer.named_parameters())]:
        if isinstance(x, np.ndarray) and x.dtype.kind == "f" and x.dtype != np.float64:
            raise TypeError(f"gradcheck: {name} is {x.dtype}, whose rounding would hide errors; use float64.")
        if not isinstance(x, np.ndarray) or x.dtype.kind not in "fiub":
            came = f"an array of {x.dtype}" if isinstance(x, np.ndarray) else type(x).__name__
            raise TypeError(f"gradcheck: {name} must be an array of real numbers, but is {came}; what is none goes into options.")
    if not condition >= 1:
        raise ValueError(f"gradcheck: condition={condition} must be 1 or more.")
