"""Compiled versions of functions against their references, which run in float64."""

import time

import numpy as np

from numformer import backend
from numformer import functional as reference
from numformer.specifications import PAIRS
from numformer.specifications.attention.random_cases import (
    KINDS, attention_case, in_float64, run)
from numformer.verify.errors import largest_difference, largest_magnitude
from numformer.verify.tensors import resolved

# Largest error that passes, relative to the largest number of a tensor
COMPILED_BOUND = {np.dtype(np.float64): 1e-13, np.dtype(np.float32): 2e-5}
CASES_OF_A_KIND = 12


def compiled_jobs():
    """(name, function that makes an audit row) for every compiled version; none without Numba."""
    jobs = []
    for dtype in map(np.dtype, (np.float64, np.float32)) if backend.compiled_attention() else ():
        jobs += [(f"{pair.name}, {dtype.name}",
                  lambda pair=pair, dtype=dtype: check_pair(pair, dtype))
                 for pair in PAIRS if pair.function.__name__ in backend.compiled_versions()
                 # in single precision an ill-conditioned case has no digits left
                 and (dtype == np.float64 or pair.condition == 1)]
        jobs += [(f"attention kernel, {kind}, {dtype.name}",
                  lambda k=k, dtype=dtype: check_attention(k, dtype))
                 for k, kind in enumerate(KINDS)]
    return jobs


def check_pair(pair, dtype):
    """The compiled version of a registered pair, both passes, against the reference."""
    started, name, rng = time.perf_counter(), pair.function.__name__, np.random.default_rng(0)
    inputs, options = pair.inputs(dtype), pair.options
    y, saved = pair.run(getattr(backend, name), *inputs, **resolved(options))
    inputs64 = [x.astype(float) for x in inputs]
    expected_y, expected_saved = pair.forward(*inputs64, **resolved(options))
    dy = rng.standard_normal(np.shape(y)).astype(dtype) if np.shape(y) else np.float64(1.0)
    gradients = pair.run_backward(getattr(backend, f"{name}_backward"), dy, saved)
    expected = (expected_y, *pair.backward(dy.astype(float), expected_saved))
    names = ("y", *(f"d{tensor}" for tensor in pair.input_names))
    found = zip((y, *gradients), expected, strict=True)
    worst, where = max((_error(x, z), tensor) for tensor, (x, z) in zip(names, found)
                       if z is not None)
    return _row(dtype, sum(x.size for x in inputs), worst, where, started, pair.condition)


def check_attention(k, dtype):
    """The attention kernel on random cases of one kind, both passes, against the reference."""
    started, kernel = time.perf_counter(), backend.compiled_attention()
    worst, where, numbers = 0.0, "", 0
    for seed in range(k, CASES_OF_A_KIND * len(KINDS), len(KINDS)):
        _, q, key, v, do, pattern, options = attention_case(seed)
        *arrays, options64 = in_float64(q, key, v, do, options)
        if dtype == np.float64:
            found = run(kernel, *arrays, pattern, options64)
        else:
            found = run(kernel, q, key, v, do, pattern, options)
        expected = run(reference, *arrays, pattern, options64)
        pairs = zip(found, expected, strict=True)
        for name, (x, z) in zip(("o", "dq", "dk", "dv", "dbias"), pairs):
            error = _error(x, z)
            numbers += x.size
            if error > worst:
                worst, where = error, f"{name}, T={q.shape[2]} S={key.shape[2]} D={q.shape[3]}"
    return _row(dtype, numbers, worst, where, started)


def _error(found, expected):
    """The largest difference, relative to the largest number, or to 1 if that is less."""
    return largest_difference(found, expected) / max(1.0, largest_magnitude({"": expected}))


def _row(dtype, numbers, worst, where, started, condition=1.0):
    bound = COMPILED_BOUND[dtype] * condition
    return {"parameters": 0, "inputs": numbers, "max_error": worst, "bound": bound,
            "method": f"compiled, {dtype.name}", "ok": worst <= bound, "worst": where,
            "findings": [], "seconds": time.perf_counter() - started}
