"""Memory in a layer's contract: who shares arrays with whom, and arrays that are not contiguous."""

import numpy as np

from numformer.verify.tensors import named_gradients, named_tensors, replaced, resolved

OUTPUT = "the output"               # no input or parameter has such a name


def shared_memory(contract):
    """(findings, remarks): gradients that are a part of what the layer still needs, or of dy.

    A view of dy is right, as long as the caller writes into neither: so it is only a remark. The
    same holds for a y that is a view of an argument.
    """
    findings, remarks = [], []
    owners = [(f"the parameter {name}", x) for name, x in contract.data.items()]
    owners += [(f"the gradient of the parameter {name}", x) for name, x in contract.grads.items()]
    owners += [(f"its argument {name}", x) for name, x in zip(contract.names, contract.inputs)]
    saved = [("saved", x) for x in _arrays(contract.saved)
             if not np.may_share_memory(x, contract.dy)]
    for name, dx in contract.by_input.items():
        if np.may_share_memory(dx, contract.dy):
            remarks.append(f"the gradient of {name} is a view of dy: write into neither")
            continue
        owner = next((owner for owner, x in owners + saved if np.may_share_memory(dx, x)), "")
        if owner:
            findings.append(f"the gradient of {name} that backward returned is a part of {owner}: "
                            "whoever writes into it changes that; return a new array")
    owner = next((owner for owner, x in owners if np.may_share_memory(contract.y, x)), "")
    if owner:
        remarks.append(f"y is a view of {owner}: write into neither")
    if any(np.may_share_memory(contract.y, x) for x in _arrays(contract.saved)):
        remarks.append("y is kept in saved: write into it only after backward")
    return findings, remarks


def _arrays(saved):
    """The arrays in nested tuples, lists and dicts."""
    if isinstance(saved, np.ndarray):
        yield saved
    elif isinstance(saved, (tuple, list)):
        for part in saved:
            yield from _arrays(part)
    elif isinstance(saved, dict):
        yield from _arrays(list(saved.values()))


def strided(x):
    """The same numbers with a gap between every two of the last axis, and from the end back."""
    if not np.ndim(x):
        return x
    return np.flip(np.repeat(np.flip(x), 2, axis=-1))[..., ::2]


LAYOUTS = {"in Fortran order": np.asfortranarray, "with negative strides": strided}


def layout_violations(contract):
    """(findings, remarks): what depends on how arrays lie in memory.

    That a layer refuses a layout with an exception is a remark: nothing wrong comes out.
    """
    findings, remarks = [], []

    def checked(what, run, expected):
        """Add a finding if the gradients that `run` makes are not the expected ones."""
        try:
            found = run()
        except Exception as error:
            remarks.append(f"with {what} it raised {type(error).__name__}: {error}")
            return
        name = contract.differs(found, expected)
        if name:
            result = "y" if name == OUTPUT else f"the gradient of {name}"
            findings.append(f"with {what}, {result} is different from that of contiguous arrays of "
                            "the same numbers")

    def backward(dy):
        return lambda: contract._backward(dy, contract.saved)

    if np.ndim(contract.dy):
        for name, layout in LAYOUTS.items():
            checked(f"dy {name}", backward(layout(contract.dy)), contract.copies)
        constant = np.broadcast_to(0.7, contract.y.shape)
        expected = contract._backward(constant.copy(), contract.saved)
        checked("a dy that is one broadcast number", backward(constant), expected)
    for name, layout in LAYOUTS.items():
        checked(f"inputs and parameters {name}", lambda: _gradients(contract, layout),
                {**contract.copies, OUTPUT: contract.y_copy})
    return findings, remarks


def _gradients(contract, layout):
    """The gradients, and y, where all inputs, parameters and their gradients have a layout."""
    layer, inputs = contract.layer, [layout(x) for x in contract.inputs]
    tensors = {name: layout(x) for name, x in named_tensors(layer, inputs).items()}
    with replaced(layer, inputs, tensors) as moved:
        y, saved = layer.forward(*moved, **resolved(contract.options))
        return {**named_gradients(layer, moved, contract.dy, saved), OUTPUT: y}
