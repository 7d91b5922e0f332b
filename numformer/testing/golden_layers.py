"""Golden vectors of layers, small models and steps of optimizers, from what the audit knows."""

import numpy as np

from numformer.functional import AttentionPattern
from numformer.testing.golden_case import GoldenCase
from numformer.testing.layers.ours import OurLayer
from numformer.testing.steps.match_steps import OPTIMIZERS, Problem, defaults_of
from numformer.verify.registry import LAYERS, MODELS
from numformer.verify.tensors import input_names, resolved

CASES = {"layer": {case.name: case for case in LAYERS},
         "model": {case.name: case for case in MODELS}, "optimizer": dict.fromkeys(OPTIMIZERS)}
PLAIN = (np.ndarray, np.number, bool, int, float, str, type(None), AttentionPattern)


def case_of(kind, name, seed, dtype):
    """(the GoldenCase of a layer, model or optimizer, ""), or (None, why there is none).

    Parameters
    ----------
    kind : "layer", "model" or "optimizer"
    name : str
        In the registry of `numformer audit`; or of an optimizer.
    seed : int
    dtype : str
        Of weights, inputs and dy; all is computed in float64 from these.
    """
    if kind == "optimizer":
        return _steps(name, seed, dtype), ""
    case = CASES[kind][name]
    options = resolved(case.options)
    for key, value in options.items():
        if not isinstance(value, PLAIN) and not _is_numbers(value):
            return None, f"its option {key} is a {type(value).__name__}"
    layer = case.layer(np.float64, seed)
    inputs = [x.astype(dtype) if x.dtype.kind == "f" else x for x in case.inputs(np.float64, seed)]
    weights = {name: parameter.data.astype(dtype) for name, parameter in layer.named_parameters()}

    def dy_of(shape):
        dy = np.random.default_rng(seed + 1).standard_normal(shape).astype(dtype)
        return dy.astype(np.float64) if shape else np.float64(dy)
    y = layer.forward(*(np.float64(x) if x.dtype.kind == "f" else x for x in inputs), **options)[0]
    if not isinstance(y, (np.ndarray, float)):
        return None, "it has several outputs"
    run = OurLayer(layer, options).run(weights, [np.float64(x) if x.dtype.kind == "f" else x
                                                 for x in inputs], dy_of)
    names = input_names(layer, inputs)
    gradients = {f"d{name}": dx for name, dx in zip(names, run.inputs) if dx is not None}
    gradients |= {f"d{name}": np.asarray(dx) for name, dx in run.parameters.items()}
    return GoldenCase(name, "", dict(zip(names, inputs)), options, run.y,
                      dy_of(np.shape(run.y)).astype(dtype), gradients, kind, weights,
                      text=repr(layer)), ""


def _steps(name, seed, dtype):
    """Gradients and learning rates of several steps, and the parameters after each."""
    problem = Problem(name, defaults_of(name) | {"max_norm": 2.0}, dtype, seed)
    n = len(problem.begin)
    arguments = {f"gradients.{k}": np.stack([step[k] for step in problem.gradients])
                 for k in range(n)}
    arguments["learning_rates"] = np.array(problem.rates)
    results = {f"after.{k}": np.stack([step[k] for step in problem.expected]) for k in range(n)}
    return GoldenCase(name, "", arguments, problem.settings, kind="optimizer",
                      parameters={str(k): x for k, x in enumerate(problem.begin)}, results=results)


def _is_numbers(value):
    return isinstance(value, list) and all(isinstance(x, (int, float)) for x in value)
