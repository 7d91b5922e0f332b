"""The audit: registered gradients against the complex step, kernels against the reference."""

from numformer.verify.compiled import compiled_jobs
from numformer.verify.gradcheck import LAYER_BOUND, MODEL_BOUND, gradcheck
from numformer.verify.registry import LAYERS, LOSSES, MODELS, PAIRS


def audit(names=(), progress=None):
    """Check everything that is registered, or the cases whose name contains one of `names`.

    Parameters
    ----------
    names : sequence of str
        Parts of names, in upper or lower case. Empty: everything.
    progress : callable, optional
        Called with each row when it is ready.

    Returns
    -------
    list of dict
        `name`, `kind` (function, layer, model, loss or kernel), `parameters` and `inputs` (how many
        numbers were differentiated), `max_error`, `bound`, `method`, `ok`, `worst` (tensor and
        index as text), `findings`, `seconds`.

    Raises
    ------
    ValueError
        If one of `names` occurs in no registered name.

    Examples
    --------
    >>> [row["ok"] for row in audit(["swiglu"])]
    [True]
    """
    kinds = (("function", PAIRS, LAYER_BOUND), ("layer", LAYERS, LAYER_BOUND),
             ("model", MODELS, MODEL_BOUND), ("loss", LOSSES, MODEL_BOUND))
    jobs = [(case.name, kind, lambda case=case, bound=bound: _checked(case, bound))
            for kind, cases, bound in kinds for case in cases]
    jobs += [(name, "kernel", job) for name, job in compiled_jobs()]
    for name in names:
        if not any(name.lower() in known.lower() for known, _, _ in jobs):
            raise ValueError(f"audit: {name!r} is part of no registered name; `numformer audit` "
                             "without a name lists them all.")
    rows = []
    for name, kind, job in jobs:
        if not names or any(part.lower() in name.lower() for part in names):
            rows.append({"name": name, "kind": kind, **job()})
            if progress:
                progress(rows[-1])
    return rows


def _checked(case, bound):
    """The row of a registered case, without its name and kind."""
    layer, inputs = case.layer(), case.inputs()
    report = gradcheck(layer, inputs, case.options, bound, case.condition)
    worst = report.worst
    return {
        "parameters": sum(parameter.data.size for _, parameter in layer.named_parameters()),
        "inputs": sum(x.size for x in inputs if x.dtype.kind == "f"),
        "max_error": worst.error if worst else 0.0, "bound": report.bound, "method": report.method,
        "ok": report.ok, "worst": f"{worst.tensor} {worst.index}" if worst else "",
        "findings": report.findings, "seconds": report.seconds}
