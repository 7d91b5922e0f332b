"""Real implementations elsewhere: PyTorch's functions and gradients, and C through ctypes."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

from numformer.testing import assert_matches

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
SOURCE = r"""
#include <math.h>

void layer_norm(const double *x, const double *weight, const double *bias, double *y,
                long rows, long width, double epsilon) {
    for (long r = 0; r < rows; r++) {
        const double *row = x + r * width;
        double mean = 0, variance = 0;
        for (long i = 0; i < width; i++) mean += row[i] / width;
        for (long i = 0; i < width; i++) variance += (row[i] - mean) * (row[i] - mean) / width;
        for (long i = 0; i < width; i++)
            y[r * width + i] = (row[i] - mean) / sqrt(variance + epsilon) * weight[i] + bias[i];
    }
}

void softmax(const float *x, float *y, long rows, long width) {
    for (long r = 0; r < rows; r++) {
        float largest = -INFINITY, sum = 0;
        for (long i = 0; i < width; i++) largest = fmaxf(largest, x[r * width + i]);
        for (long i = 0; i < width; i++) sum += y[r * width + i] = expf(x[r * width + i] - largest);
        for (long i = 0; i < width; i++) y[r * width + i] /= sum;
    }
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if not COMPILER:
        pytest.skip("no compiler of C")
    folder = tmp_path_factory.mktemp("c")
    (folder / "norm.c").write_text(SOURCE)
    made = subprocess.run([COMPILER, "-O1", "-shared", "-fPIC", "-o", str(folder / "norm.so"),
                           str(folder / "norm.c"), "-lm"], capture_output=True)
    if made.returncode:
        pytest.skip("the compiler makes no shared library here")
    return ctypes.CDLL(str(folder / "norm.so"))


def address(x):
    return x.ctypes.data_as(ctypes.c_void_p)


@pytest.mark.parametrize("epsilon, right", [(None, True), (1e-3, False)])
def test_a_layer_norm_in_c(library, epsilon, right):
    def layer_norm(x, weight, bias):
        y, width = np.empty_like(x), x.shape[-1]
        library.layer_norm(address(x), address(weight), address(bias), address(y),
                           ctypes.c_long(x.size // width), ctypes.c_long(width),
                           ctypes.c_double(epsilon or 1e-5))
        return y
    if right:
        assert_matches("layer_norm", layer_norm)
    else:
        with pytest.raises(AssertionError, match="layer_norm: y is wrong in"):
            assert_matches("layer_norm", layer_norm)


def test_a_softmax_of_float32_in_c(library):
    def softmax(x):
        y, width = np.empty_like(x), x.shape[-1]
        library.softmax(address(x), address(y), ctypes.c_long(x.size // width),
                        ctypes.c_long(width))
        return y
    assert_matches("softmax", softmax, dtype="float32")


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def gradients(torch, f):
    """The backward of a function of PyTorch, by its autograd."""
    def backward(dy, *arrays):
        arrays = [x.requires_grad_() if x.is_floating_point() else x for x in arrays]
        y = f(*arrays)
        y.backward(dy if isinstance(dy, torch.Tensor) else torch.tensor(dy, dtype=y.dtype))
        return tuple(x.grad for x in arrays if x.is_floating_point())
    return backward


@pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)])
def test_functions_of_pytorch(torch, dtype):
    T = torch.nn.functional
    cases = {
        "layer_norm": lambda x, w, b: T.layer_norm(x, x.shape[-1:], w, b),
        "rms_norm": lambda x, w: T.rms_norm(x, x.shape[-1:], w, 1e-5),
        "gelu": T.gelu, "silu": T.silu, "softmax": lambda x: torch.softmax(x, -1)}
    for name, f in cases.items():
        assert_matches(name, lambda *x: f(*x), dtype=dtype, convert=torch.from_numpy)
    assert_matches("linear", lambda x, w, b: T.linear(x, w, b), dtype=dtype,
                   convert=torch.from_numpy, layout={"weight": "IO->OI"})
    assert_matches("cross_entropy", lambda logits, targets: T.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), targets.flatten()), dtype=dtype,
                   convert=torch.from_numpy)


def test_a_convention_that_differs_is_found(torch):
    """PyTorch's weight of a linear map is (out, in)."""
    with pytest.raises(AssertionError, match="linear"):
        assert_matches("linear", lambda x, w, b: torch.nn.functional.linear(x, w, b),
                       convert=torch.from_numpy)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_gradients_of_pytorch(torch, dtype):
    T = torch.nn.functional
    options = {"dtype": dtype, "convert": torch.from_numpy}

    def attention(q, k, v):
        return T.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)))\
            .transpose(1, 2)

    def linear(x, w, b):
        return T.linear(x, w, b)
    assert_matches("scaled_dot_product_attention", attention, layout="BHTD->BTHD", **options)
    backward = gradients(torch, attention)
    assert_matches("scaled_dot_product_attention_backward",
                   lambda do, q, k, v: backward(do, q, k, v), layout="BHTD->BTHD", **options)
    backward = gradients(torch, linear)
    assert_matches("linear_backward", lambda dy, x, w, b: backward(dy, x, w, b),
                   layout={"weight": "IO->OI"}, **options)
    backward = gradients(torch, lambda x, w, b: T.layer_norm(x, x.shape[-1:], w, b))
    assert_matches("layer_norm_backward", lambda dy, x, w, b: backward(dy, x, w, b), **options)
