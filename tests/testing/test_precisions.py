"""assert_matches in float16 and bfloat16, its causes in float32, what it leaves out, and arrays of
other libraries."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import numformer
from numformer import functional
from numformer.other_libraries import as_array
from numformer.testing import assert_matches
from numformer.testing.half import EPSILONS, is_within, rounded


def in_float32(f):
    """A function that computes in float32, and whose result is rounded to the dtype."""
    def of_theirs(x, *more):
        y = f(*(np.float32(each) for each in (x, *more)))
        return rounded(y, "bfloat16").astype(np.float32) if x.dtype == np.float32 else (
            y.astype(np.float16))
    return of_theirs


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x, weight, bias):
    x = x - x.mean(axis=-1, keepdims=True)
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * weight + bias


CASES = {"softmax": lambda x: in_float32(softmax)(x),
         "layer_norm": lambda x, weight, bias: in_float32(layer_norm)(x, weight, bias),
         "linear": lambda x, weight, bias: in_float32(lambda x, w, b: x @ w + b)(x, weight, bias),
         "silu": lambda x: in_float32(lambda x: x / (1 + np.exp(-x)))(x)}


@pytest.mark.parametrize("dtype", EPSILONS)
@pytest.mark.parametrize("name", CASES)
def test_right_functions_in_half_precision(name, dtype):
    verdict = assert_matches(name, CASES[name], dtype=dtype)
    assert "large numbers" in verdict.levels
    if dtype == "float16":
        assert "(beyond the range of float16)" in verdict.not_tested[-1]


@pytest.mark.parametrize("dtype", EPSILONS)
def test_arguments_are_numbers_of_the_dtype(dtype):
    seen = set()

    def relu(x):
        assert (rounded(x, dtype) == x).all()
        seen.add(x.dtype)
        return np.maximum(x, 0)
    assert_matches("relu", relu, dtype=dtype)
    assert seen == {np.dtype(np.float16 if dtype == "float16" else np.float32)}


@pytest.mark.parametrize("dtype", EPSILONS)
@pytest.mark.parametrize("change", [lambda y: 0 * y, lambda y: 2 * y, lambda y: -y,
                                    lambda y: y[..., ::-1], lambda y: y * 1.15])
def test_wrong_functions_in_half_precision(dtype, change):
    for name, f in CASES.items():
        def wrong(*arguments):
            return change(f(*arguments))
        wrong.__wrapped__ = f
        with pytest.raises(AssertionError, match=f"{name}: y is wrong in .*") as raised:
            assert_matches(name, wrong, dtype=dtype)
        assert str(raised.value).endswith(f"seed=0, dtype={dtype}")


@pytest.mark.parametrize("dtype", EPSILONS)
def test_a_backward_in_half_precision(dtype):
    def softmax_backward(dy, x):
        p = in_float32(softmax)(x).astype(np.float32)
        dy = np.float32(dy)
        return p * (dy - (p * dy).sum(axis=-1, keepdims=True))
    assert_matches("softmax_backward", softmax_backward, dtype=dtype)
    with pytest.raises(AssertionError, match="dx is wrong"):
        assert_matches("softmax_backward", lambda dy, x: softmax(np.float32(x)) * np.float32(dy),
                       dtype=dtype)


def test_squares_that_half_precision_does_not_hold():
    def rms_norm(x, weight, epsilon=1e-5):
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + x.dtype.type(epsilon)) * weight

    def in_single(x, weight, epsilon=1e-5):
        return rms_norm(np.float32(x), np.float32(weight), epsilon).astype(x.dtype)
    assert "large numbers" in assert_matches("rms_norm", in_single, dtype="float16").levels
    with pytest.raises(AssertionError, match="float16 does not hold their squares") as raised:
        assert_matches("rms_norm", rms_norm, dtype="float16")
    assert "In float32 it is right: the error is one of precision." in str(raised.value)


@pytest.mark.parametrize("dtype", EPSILONS)
def test_the_cause_in_half_precision_is_that_in_float64(dtype):
    def no_bias(x, weight, bias):
        y = layer_norm(*map(np.float64, (x, weight, 0 * bias)))
        return y.astype(x.dtype)
    with pytest.raises(AssertionError, match="Likely cause, found in float64: bias is not added"):
        assert_matches("layer_norm", no_bias, dtype=dtype)


def test_a_generator_is_as_before_when_the_reference_runs():
    def dropout(x, rate, rng):
        return functional.dropout(x.astype(np.float32), rate, rng)[0].astype(x.dtype)
    assert_matches("dropout", dropout, dtype="float16")


def test_a_level_that_a_dtype_does_not_hold_is_refused():
    with pytest.raises(ValueError, match="holds the numbers of none of these levels: a large dy"):
        assert_matches("softmax_backward", lambda dy, x: x, dtype="float16", levels=["a large dy"])


def test_numbers_are_rounded_to_even():
    x = np.array([1 + 2 ** -8, 1 + 3 * 2 ** -8, -3.14159, 1e38, 0.0])
    assert (rounded(x, "bfloat16") == [1, 1 + 2 ** -6, -3.140625, 1e38 + 0 * x[3], 0]).tolist() == [
        True, True, True, False, True]
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal(1000)
    for dtype in EPSILONS:
        theirs = torch.from_numpy(x.astype(np.float32)).to(getattr(torch, dtype)).double().numpy()
        assert (rounded(x.astype(np.float32), dtype) == theirs).all()


def test_what_a_dtype_cannot_hold():
    assert is_within([np.ones(3), np.arange(3)], "float16") and is_within([], "float16")
    assert not is_within([np.full(3, 1e5)], "float16")
    assert not is_within([np.full(3, 1e-9)], "float16")
    assert is_within([np.full(3, 1e9)], "bfloat16")


def test_the_cause_for_float32_is_that_in_float64():
    def no_bias(x, weight, bias):
        return layer_norm(x, weight, 0 * bias)
    with pytest.raises(AssertionError) as raised:
        assert_matches("layer_norm", no_bias, dtype="float32")
    assert "\nLikely cause, found in float64: " in str(raised.value)
    assert str(raised.value).endswith("seed=0, dtype=float32")


def test_an_error_of_precision_is_called_so():
    def coarse(x):
        return softmax(x if x.dtype == np.float64 else rounded(x, "bfloat16").astype(np.float32))
    with pytest.raises(AssertionError, match="In float64 it is right: the error is one of prec"):
        assert_matches("softmax", coarse, dtype="float32")


def test_what_is_left_out_is_in_the_result():
    verdict = assert_matches("softmax", lambda x: softmax(x))
    assert "plain" in verdict.levels and bool(verdict)
    assert any("axis, mask (no such parameters)" in reason for reason in verdict.not_tested)
    assert any("a row of the mask is False (only if named" in each for each in verdict.not_tested)
    assert assert_matches("softmax", lambda x: softmax(x), levels=["plain"]).levels == ("plain",)


class OnGPU:
    """As an array of CuPy: it is copied by `get`, and refuses to become one of NumPy by itself."""

    __cuda_array_interface__ = {}

    def __init__(self, x):
        self.x, self.dtype, self.shape = x, x.dtype, x.shape

    def __array__(self, *arguments, **options):
        raise TypeError("implicit conversion to a NumPy array is not allowed")

    def get(self):
        return self.x


def test_arrays_that_are_copied_by_get():
    assert_matches("softmax", lambda x: OnGPU(softmax(x.get())), convert=OnGPU)
    assert (as_array(OnGPU(np.ones(2))) == 1).all()
    assert as_array({"a": 1}) == {"a": 1}             # what has a get, but is no array


def test_tensors_with_a_graph_and_of_bfloat16():
    torch = pytest.importorskip("torch")

    def softmax_of_torch(x):
        y = torch.softmax(x.requires_grad_(), dim=-1)
        assert y.requires_grad
        return y
    assert_matches("softmax", softmax_of_torch, convert=torch.from_numpy)
    assert_matches("softmax", softmax_of_torch, dtype="bfloat16",
                   convert=lambda x: torch.from_numpy(x).bfloat16())


@pytest.mark.slow
def test_pytest_shows_the_verdict_alone(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "from numformer.testing import *\nimport numpy as np\nfrom numformer.layers import Linear\n"
        "def test_function():\n    assert_matches('softmax', lambda x: x)\n"
        "def test_layer():\n"
        "    assert_layer_matches(Linear(3, 2, np.random.default_rng(0), bias=False),\n"
        "                         Linear(3, 2, None), [np.ones((1, 3))])\n"
        "def test_steps():\n    assert_steps_match('sgd', lambda p, g: None)\n")
    root = str(Path(numformer.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(
        filter(None, [root, os.environ.get("PYTHONPATH")]))}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"],
        capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert "3 failed" in ran.stdout, ran.stdout + ran.stderr
    assert "numformer/testing" not in ran.stdout and len(ran.stdout.splitlines()) < 60, ran.stdout


@pytest.mark.parametrize("dtype, seed", [("bfloat16", 1), ("bfloat16", 2), ("float16", 2)])
def test_sums_in_half_precision_and_results_without_right_digits(dtype, seed):
    torch = pytest.importorskip("torch")

    def tensor(x):
        x = torch.from_numpy(x)
        return x.to(getattr(torch, dtype)) if x.is_floating_point() else x

    def backward(dy, x, weight, bias, epsilon=1e-5):
        arrays = [a.clone().requires_grad_() for a in (x, weight, bias)]
        y = torch.nn.functional.layer_norm(arrays[0], x.shape[-1:], *arrays[1:], epsilon)
        return torch.autograd.grad(y, arrays, dy)

    def wrong(dy, x, weight, bias, epsilon=1e-5):
        dx, dweight, dbias = backward(dy, x, weight, bias, epsilon)
        return dx, dweight, dbias / len(dy)
    assert_matches("layer_norm_backward", backward, dtype=dtype, convert=tensor, seed=seed)
    with pytest.raises(AssertionError, match="dbias is wrong"):
        assert_matches("layer_norm_backward", wrong, dtype=dtype, convert=tensor, seed=seed)
