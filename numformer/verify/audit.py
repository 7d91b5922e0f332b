"""The audit: every registered function, layer, model and loss against the complex step, every kernel against its twin."""

import time

import numpy as np

from numformer import backend
from numformer import functional as truth
from numformer.verify.attention_cases import KINDS, attention_case, in_float64, run
from numformer.verify.gradcheck import LAYER, MODEL, gradcheck
from numformer.verify.jacobians import made
from numformer.verify.registry import LAYERS, LOSSES, MODELS, PAIRS

TWIN = {np.dtype(np.float64): 1e-13, np.dtype(np.float32): 2e-5}      # of the largest number of a tensor
TWIN_CASES = 12


def audit(names=(), progress=None):
    """Check everything that is registered, or what bears one of the names.

    Parameters
    ----------
    names : sequence of str
        Parts of names; upper and lower case count alike. Empty: everything.
    progress : callable, optional
        Called with each row as it is found.

    Returns
    -------
    list of dict
        `name`, `kind` (function, layer, model, loss or kernel), `parameters` and `inputs` (how many numbers were
        differentiated), `max_error`, `bound`, `method`, `ok`, `worst` (tensor and index in words), `findings`, `seconds`.

    Raises
    ------
    ValueError
        If a name is nowhere.

    Examples
    --------
    >>> [row["ok"] for row in audit(["swiglu"])]
    [True]
    """
    jobs = [(case.name, kind, lambda case=case, bound=bound: _checked(case, bound)) for kind, cases, bound in (
        ("function", PAIRS, LAYER), ("layer", LAYERS, LAYER), ("model", MODELS, MODEL), ("loss", LOSSES, MODEL)) for case in cases]
    for dtype in map(np.dtype, (np.float64, np.float32)) if backend.compiled_attention() else ():
        jobs += [(f"{pair.name}, {dtype.name}", "kernel", lambda pair=pair, dtype=dtype: _pair_of_twins(pair, dtype))
                 for pair in PAIRS if pair.function.__name__ in backend.TWINS
                 and (dtype == np.float64 or pair.condition == 1)]    # in single precision an ill-conditioned case has no digits left
        jobs += [(f"attention kernel, {kind}, {dtype.name}", "kernel", lambda k=k, dtype=dtype: _attention_twins(k, dtype))
                 for k, kind in enumerate(KINDS)]
    for name in names:
        if not any(name.lower() in known.lower() for known, _, _ in jobs):
            raise ValueError(f"audit: {name!r} is part of no registered name; `numformer audit` without a name lists them all.")
    rows = []
    for name, kind, job in jobs:
        if not names or any(part.lower() in name.lower() for part in names):
            rows.append({"name": name, "kind": kind, **job()})
            if progress:
                progress(rows[-1])
    return rows


def _checked(case, bound):
    layer, inputs = case.layer(), case.inputs()
    report = gradcheck(layer, inputs, case.options, bound, case.condition)
    worst = report.worst
    return {
        "parameters": sum(parameter.data.size for _, parameter in layer.named_parameters()),
        "inputs": sum(x.size for x in inputs if x.dtype.kind == "f"), "max_error": worst.error if worst else 0.0, "bound": report.bound,
        "method": report.method, "ok": report.ok, "worst": f"{worst.tensor} {worst.index}" if worst else "", "findings": report.findings,
        "seconds": report.seconds}


def _pair_of_twins(pair, dtype):
    """The kernel of a registered pair, forward and backward, against the truth in float64."""
    started, name, rng = time.perf_counter(), pair.function.__name__, np.random.default_rng(0)
    inputs = pair.inputs(dtype)
    y, saved = getattr(backend, name)(*pair.before, *inputs, *pair.after, **made(pair.options))
    true_y, true_saved = pair.forward(*(x.astype(float) for x in inputs), **made(pair.options))
    dy = rng.standard_normal(np.shape(y)).astype(dtype) if np.shape(y) else np.float64(1.0)
    gradients, true_gradients = getattr(backend, f"{name}_backward")(dy, saved), pair.backward(dy.astype(float), true_saved)
    gradients = gradients if isinstance(gradients, tuple) else (gradients,)
    worst, where = max((_twin_error(x, true), tensor) for tensor, x, true in zip(
        ("y", *(f"d{tensor}" for tensor in pair.input_names)), (y, *gradients), (true_y, *true_gradients)) if true is not None)
    return _twin_row(dtype, sum(x.size for x in inputs), worst, where, started, pair.condition)


def _twin_error(x, true):
    return float(np.nan_to_num(np.abs(x - true).max() / max(1, np.abs(true).max()), nan=np.inf))


def _attention_twins(k, dtype):
    """The kernel of one kind of pattern, forward and backward, against the truth in float64."""
    started, compiled, worst, where, numbers = time.perf_counter(), backend.compiled_attention(), 0.0, "", 0
    for seed in range(k, TWIN_CASES * len(KINDS), len(KINDS)):
        _, q, key, v, do, pattern, options = attention_case(seed)
        *arrays, more = in_float64(q, key, v, do, options)
        found = run(compiled, *(arrays if dtype == np.float64 else (q, key, v, do)), pattern, more if dtype == np.float64 else options)
        for name, x, y in zip(("o", "dq", "dk", "dv", "dbias"), found, run(truth, *arrays, pattern, more)):
            error = _twin_error(x, y)
            numbers += x.size
            if error > worst:
                worst, where = error, f"{name}, T={q.shape[2]} S={key.shape[2]} D={q.shape[3]}"
    return _twin_row(dtype, numbers, worst, where, started)


def _twin_row(dtype, numbers, worst, where, started, condition=1.0):
    bound = TWIN[dtype] * condition
    return {"parameters": 0, "inputs": numbers, "max_error": worst, "bound": bound, "method": f"twin in {dtype.name}",
            "ok": worst <= bound, "worst": where, "findings": [], "seconds": time.perf_counter() - started}
