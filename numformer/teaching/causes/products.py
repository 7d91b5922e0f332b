"""The right output times or plus something that came in: a factor or a term too many."""

import numpy as np


def products(evidence):
    """(cost, cause, make) of each; `make` gives the wrong output alone, the others are right."""
    name, case = evidence.wrong, evidence.cases[0]
    shape = np.shape(case.expected[name])
    for other, array in _arrays(evidence, case).items():
        try:
            if np.broadcast_shapes(np.shape(array), shape) != shape:
                continue
        except ValueError:
            continue
        for cost, cause, change in (
                (1, f"{name} is multiplied by {other}, which is a factor too many",
                 lambda right, value, dy: right * value),
                (1, f"the factor {other} is missing in {name}",
                 lambda right, value, dy: right / value),
                (1, f"{name} has a term too many: {other} is added to it",
                 lambda right, value, dy: right + value),
                (1, f"{other} is subtracted from {name}, but must not be",
                 lambda right, value, dy: right - value),
                (2, f"{name} is {other}", lambda right, value, dy: value + 0 * right),
                (2, f"{name} is dy times {other}", lambda right, value, dy: dy * value)):
            if "dy times" in cause and (not evidence.backward or other == "dy"):
                continue
            yield cost, cause, lambda case, other=other, change=change: _with(
                evidence, case, change, other)


def _arrays(evidence, case):
    """Arrays that came in or out, by name: arguments, dy and y, other outputs, their sum."""
    found = {key: value for key, value in case.arguments.items()
             if isinstance(value, np.ndarray) and value.dtype.kind == "f"}
    if evidence.backward:
        found["dy"] = case.dy
        found.update({key: value for key, value in case.expected.items() if key != evidence.wrong})
        arguments, options = case.inputs()
        found["the output y"] = evidence.problem.function(*arguments.values(), **options)[0]
    found = {key: value for key, value in found.items() if np.ndim(value)}
    shape = np.shape(case.expected[evidence.wrong])
    for key, value in list(found.items()):                # of shape (H,), for axis 1 of the output
        if np.ndim(value) == 1 and len(shape) > 1:
            for axis in range(len(shape) - 1):
                if shape[axis] == len(value) and shape[-1] != len(value):
                    found[key] = value.reshape(-1, *(1,) * (len(shape) - axis - 1))
    return found


def _with(evidence, case, change, other):
    """All outputs, the wrong one changed."""
    return evidence.in_wrong_alone(case, change(
        case.expected[evidence.wrong], _arrays(evidence, case)[other], case.dy))
