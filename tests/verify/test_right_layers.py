"""gradcheck refuses no right layer: unusual styles, saturation, kinks, zeros, ties, all scales."""

import numpy as np
import pytest

import right_layers
from numformer import functional as F
from numformer.verify import gradcheck
from right_layers import special_points

FUNCTIONS = [
    (special_points.softmax, special_points.softmax_backward),
    (special_points.log_softmax, special_points.log_softmax_backward),
    (special_points.tanh, special_points.tanh_backward),
    (special_points.sigmoid, special_points.sigmoid_backward),
    (special_points.gelu, special_points.gelu_backward),
    (special_points.softplus, special_points.softplus_backward),
    (special_points.leaky, special_points.leaky_backward),
    (special_points.maximum, special_points.shared_maximum_backward),
    (special_points.rms, special_points.rms_backward),
    (F.relu_squared, F.relu_squared_backward), (F.gelu, F.gelu_backward), (F.silu, F.silu_backward),
    (lambda x: F.layer_norm(x, np.ones(4), np.zeros(4)),
     lambda dy, saved: F.layer_norm_backward(dy, saved)[0]),
    (lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]),
     lambda do, saved: sum(F.scaled_dot_product_attention_backward(do, saved)[:3])[0, 0]),
    special_points.Perceptron(), special_points.Perceptron(1.0),
]


def random_inputs(seed):
    """Three or four columns; of any scale, rounded to small integers, or with equal rows."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rng.integers(1, 4), 4)) * 10.0 ** rng.uniform(-8, 5)
    kind = rng.integers(5)
    if kind == 0:
        x = rng.integers(-2, 3, x.shape).astype(float)
    elif kind == 1:
        x[...] = x[0]
    elif kind == 2:
        x *= rng.random(x.shape) < 0.5
    return x


def refused(seed):
    """The reports of all functions that are refused at the inputs of a seed."""
    x = random_inputs(seed)
    for layer in FUNCTIONS:
        report = gradcheck(layer, [x[:, :3] if hasattr(layer, "forward") else x])
        if not report.ok:
            yield f"seed {seed}: {report}"


@pytest.mark.parametrize("case", right_layers.CASES, ids=lambda case: case[0])
def test_a_right_layer_is_not_refused(case):
    _, layer, inputs, more = case
    report = gradcheck(layer, inputs, **more)
    assert report.ok, str(report)
    assert report.rows


def test_there_are_enough_right_layers():
    assert len(right_layers.CASES) >= 80
    assert len({name for name, *_ in right_layers.CASES}) == len(right_layers.CASES)


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 150), marks=pytest.mark.slow)])
def test_right_functions_at_random_inputs(seeds):
    assert not [report for seed in seeds for report in refused(seed)]
