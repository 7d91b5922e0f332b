"""assert_matches: right implementations pass, wrong ones fail with the words of `check`."""

import numpy as np
import pytest

from numformer import functional as F
from numformer.testing import assert_matches


def layer_norm(x, weight, bias, epsilon=1e-5):
    return F.layer_norm(x, weight, bias, epsilon)


def layer_norm_backward(dy, x, weight, bias, epsilon=1e-5):
    return F.layer_norm_backward(dy, F.layer_norm(x, weight, bias, epsilon)[1])


class Tensor:
    """What is no array, but can become one."""

    def __init__(self, x):
        self.x = x

    def __array__(self, dtype=None, copy=None):
        return self.x


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_right_functions_pass(dtype):
    assert_matches("layer_norm", layer_norm, dtype=dtype)
    assert_matches("layer_norm_backward", layer_norm_backward, dtype=dtype)
    assert_matches("softmax", lambda x: Tensor(F.softmax(x)[0]), dtype=dtype)


def test_float32_goes_in_as_contiguous_arrays_and_is_compared_as_such():
    seen = []

    def relu(x):
        seen.append((x.dtype, x.flags.c_contiguous, x.flags.writeable))
        return np.maximum(x, 0)
    assert_matches("relu", relu, dtype="float32")
    assert set(seen) == {(np.dtype(np.float32), True, True)} and len(seen) > 5
    with pytest.raises(AssertionError, match="must be an array of float64"):
        assert_matches("relu", lambda x: np.maximum(x, 0).astype(np.float32), levels=["plain"])


def test_a_wrong_function_fails_with_the_checkers_sentence():
    def wrong(dy, x, weight, bias):
        dx, dweight, dbias = layer_norm_backward(dy, x, weight, bias)
        return dx, -dweight, dbias
    with pytest.raises(AssertionError) as raised:
        assert_matches("layer_norm_backward", wrong, seed=3)
    text = str(raised.value)
    assert text.startswith("layer_norm_backward: dweight is wrong in ") and "Level of" in text
    assert "Likely cause" in text and text.endswith("seed=3, dtype=float64")
    with pytest.raises(AssertionError, match="it raised ZeroDivisionError"):
        assert_matches("softmax", lambda x: 1 / 0)


def test_rtol_is_the_largest_relative_error():
    def rough(x):
        return F.softmax(x)[0] * (1 + 1e-6)
    assert_matches("softmax", rough, rtol=1e-5)
    assert_matches("softmax", rough, dtype="float32")
    for options in ({}, {"rtol": 1e-7}):
        with pytest.raises(AssertionError, match=r"relative error 1e-06"):
            assert_matches("softmax", rough, levels=["plain"], **options)


def attention(q, k, v):
    return F.attention(q, k, v)[0]


def attention_backward(do, q, k, v):
    return F.attention_backward(do, F.attention(q, k, v)[1])


def positions_first(f):
    def of_theirs(*arrays):
        found = f(*(x.transpose(0, 2, 1, 3) for x in arrays))
        return (tuple(x.transpose(0, 2, 1, 3) for x in found) if isinstance(found, tuple)
                else found.transpose(0, 2, 1, 3))
    return lambda q, k, v, *more: of_theirs(q, k, v, *more)


def test_heads_and_positions_in_another_order():
    assert_matches("attention", positions_first(attention), layout="BHTD->BTHD")
    assert_matches("attention_backward", positions_first(attention_backward), layout="BHTD -> BTHD")
    with pytest.raises(AssertionError):
        assert_matches("attention", attention, layout="BHTD->BTHD")


@pytest.mark.slow
def test_heads_that_are_merged_in_the_result():
    def merged(q, k, v):
        y = positions_first(attention)(q, k, v)
        return y.reshape(*y.shape[:2], -1)
    layout = dict.fromkeys(("q", "k", "v"), "BHTD->BTHD")
    assert_matches("attention", merged, layout={**layout, "y": "BHTD->BT(HD)"})
    with pytest.raises(AssertionError, match="y is wrong"):
        assert_matches("attention", merged, layout={**layout, "y": "BHTD->BT(DH)"})
    with pytest.raises(AssertionError, match="y has shape"):
        assert_matches("attention", merged, layout={**layout, "y": "BHTD->BTHD"})


def test_weights_of_the_other_order():
    def linear_backward(dy, x, weight, bias):
        rows, drows = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
        return dy @ weight, drows.T @ rows, drows.sum(axis=0)
    assert_matches("linear", lambda x, weight, bias: x @ weight.T + bias,
                   layout={"weight": "IO->OI"})
    assert_matches("linear_backward", linear_backward, layout={"weight": "IO->OI"})
    with pytest.raises(AssertionError):
        assert_matches("linear_backward", linear_backward)


@pytest.mark.parametrize("options, words", [
    ({"layout": "BHTD"}, "must name our axes and theirs"), ({"layout": "AB->AA"}, "must name"),
    ({"layout": "AB->A(B"}, "must name"), ({"layout": 3}, "layout must be a str or a dict"),
    ({"layout": {"nothing": "AB->BA"}}, "layout names 'nothing'; choose from y, x"),
    ({"dtype": "int8"}, "dtype='int8'"), ({"rtol": 0}, "rtol=0"), ({"seed": -1}, "seed=-1"),
    ({"levels": ["none"]}, "level='none'"), ({"convert": 3}, "convert must be")])
def test_bad_arguments_are_named(options, words):
    with pytest.raises((TypeError, ValueError), match=words.replace("(", r"\(")):
        assert_matches("softmax", lambda x: x, **options)


def test_names_and_functions_that_are_none():
    with pytest.raises(ValueError, match="not a function that can be checked"):
        assert_matches("nothing", layer_norm)
    with pytest.raises(TypeError, match="f and convert must be functions"):
        assert_matches("softmax", 3)


def test_a_layout_that_does_not_fit_is_no_error_of_the_function():
    with pytest.raises(ValueError, match="assert_matches: layout='ABC->CBA' is one of 3 axes"):
        assert_matches("softmax", lambda x: x, layout={"x": "ABC->CBA"})
    with pytest.raises(ValueError, match="layout='BCDEF->BC.*is one of 5 axes, but the array"):
        assert_matches("attention", attention, layout={"y": "BCDEF->BCD(EF)"})


@pytest.mark.slow
def test_sizes_of_a_layout_are_those_of_the_reference():
    """Of each array for itself: keys have another length than queries, values another width."""
    def merged(q, k, v):
        y = attention(q, k, v)
        return y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)
    assert_matches("attention", merged, layout={"y": "BHTD->BT(HD)"})
    with pytest.raises(AssertionError, match="y is wrong"):
        assert_matches("attention", merged, layout={"y": "BHTD->BT(DH)"})

    def merged_backward(do, q, k, v):
        do = do.reshape(*do.shape[:2], q.shape[1], -1).transpose(0, 2, 1, 3)
        return attention_backward(do, q, k, v)
    assert_matches("attention_backward", merged_backward, layout={"y": "BHTD->BT(HD)"})


def test_options_of_a_module_of_pytorch_are_those_of_its_forward():
    torch = pytest.importorskip("torch")
    verdict = assert_matches("softmax", torch.nn.Softmax(-1), convert=torch.from_numpy)
    assert "axis" in " ".join(verdict.not_tested)
    with pytest.raises(AssertionError, match="y is wrong"):
        assert_matches("softmax", torch.nn.Softmax(0), convert=torch.from_numpy)
