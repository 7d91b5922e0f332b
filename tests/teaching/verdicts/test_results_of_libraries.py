"""`check` takes what libraries return, and gives copies of views to functions that refuse them."""

import numpy as np
import pytest

from numformer import check
from numformer import functional as F
from numformer.other_libraries import as_array
from numformer.teaching.exercise import find_exercises
from numformer.teaching.support.credit import credit
from numformer.testing import assert_matches


class Tensor:
    """As PyTorch's: NumPy gets nothing of a graph, of another device, or of bfloat16."""

    def __init__(self, x, graph=False, device="cpu", dtype="torch.float64"):
        self.x, self.graph, self.device, self.dtype = x, graph, device, dtype

    def detach(self):
        return Tensor(self.x, False, self.device, self.dtype)

    def cpu(self):
        return Tensor(self.x, self.graph, "cpu", self.dtype)

    def float(self):
        return Tensor(self.x.astype(np.float32), self.graph, self.device, "torch.float32")

    def __array__(self, dtype=None, copy=None):
        assert not self.graph and self.device == "cpu" and self.dtype != "torch.bfloat16"
        return self.x


X = np.linspace(-1, 1, 6).reshape(2, 3)


@pytest.mark.parametrize("x", [Tensor(X), Tensor(X, True), Tensor(X, True, "cuda:0"),
                               Tensor(X, True, "cuda:0", "torch.bfloat16")])
def test_arrays_of_any_kind_become_arrays_of_numpy(x):
    found = as_array(x)
    assert type(found) is np.ndarray and np.allclose(found, X)
    assert found.dtype == (np.float32 if "bfloat16" in x.dtype else np.float64)


def test_a_graph_is_no_fault_and_another_precision_is_named():
    assert check("softmax", lambda x: Tensor(F.softmax(x)[0], graph=True), seed=1)
    assert_matches("softmax", lambda x: Tensor(F.softmax(x)[0], graph=True))
    verdict = check("softmax", lambda x: Tensor(F.softmax(x)[0], dtype="torch.bfloat16"), seed=1)
    assert not verdict and "must be an array of float64, like the arguments" in verdict.text
    assert_matches("softmax", lambda x: Tensor(F.softmax(x)[0], True, dtype="torch.bfloat16"),
                   dtype="float32")


def refuses(f):
    def of_contiguous(*arrays):
        for x in arrays:
            if min(x.strides, default=0) < 0:
                raise ValueError("At least one stride is negative")
        return f(*arrays)
    return of_contiguous


def test_a_function_that_refuses_views_gets_copies_which_is_remarked():
    verdict = check("softmax", refuses(lambda x: F.softmax(x)[0]), seed=1)
    assert verdict and len(verdict.remarks) == 1 and "float32" in verdict.levels, verdict
    assert "views it raised ValueError: At least one stride is negative" in verdict.remarks[0]
    assert "tested with copies of them" in verdict.text and "arguments were" not in verdict.text
    assert check("softmax", lambda x: F.softmax(x)[0], seed=1).remarks == ()


def test_with_copies_it_must_be_right():
    def by_memory(x):
        """Wrong for views, without an exception."""
        return F.softmax(x.ravel(order="K").reshape(x.shape))[0]

    assert not check("softmax", by_memory, seed=1)
    n_calls = []

    def wrong_for_copies(x):
        n_calls.append(x.flags.c_contiguous)
        if not all(n_calls):
            return refuses(lambda x: 2 * F.softmax(x)[0])(x)
        return F.softmax(x)[0]

    assert not check("softmax", wrong_for_copies, seed=1)


def test_partial_credit_gives_copies_too():
    """A wrong function that refuses views loses nothing for them."""
    (exercise,) = find_exercises(["1"])

    def without_shift(x):
        e = np.exp(x)
        return e / e.sum(axis=-1, keepdims=True)

    alike = [credit(exercise, f, "softmax", 1) for f in (without_shift, refuses(without_shift))]
    assert alike[0] == alike[1] and 0 < alike[0]["y"][0] < alike[0]["y"][1]


@pytest.mark.parametrize("nested", [lambda x: x.tolist(), lambda x: [row.tolist() for row in x]])
def test_nested_lists_of_numbers_are_one_array(nested):
    def lists(x):
        return nested(F.softmax(x)[0])

    verdict = check("softmax", lists, seed=1)
    assert verdict, verdict
    wrong = check("softmax", lambda x: (2 * F.softmax(x)[0]).tolist(), seed=1)
    assert not wrong and "y is wrong in" in wrong.text
    backward = check("softmax_backward",
                     lambda dp, x: F.softmax_backward(dp, F.softmax(x)[1]).tolist(), seed=1)
    assert backward, backward


def test_lists_of_arrays_are_several_outputs():
    def backward(dy, x, weight, bias):
        return list(F.layer_norm_backward(dy, F.layer_norm(x, weight, bias)[1]))

    assert check("layer_norm_backward", backward, seed=1)
    ragged = check("softmax", lambda x: [[1.0], [1.0, 2.0]], seed=1)
    assert not ragged and "but is list" in ragged.text
