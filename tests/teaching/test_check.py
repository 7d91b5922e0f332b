"""`numformer.check`: right functions pass, and each wrong one gets an answer that helps."""

import numpy as np
import pytest

from marks import every
from numformer import check
from numformer import functional as F
from numformer.specifications import MISTAKES


@pytest.mark.parametrize("name, number", every(6, [
    (name, k) for name in MISTAKES for k in range(len(MISTAKES[name]))]))
def test_every_known_mistake_is_recognised_as_itself(name, number):
    cause, mistake = MISTAKES[name][number]
    verdict = check(name, mistake, seed=number)
    assert not verdict and verdict.cause == cause and f"Likely cause: {cause}." in verdict.text


def test_a_function_written_in_another_way_is_right():
    """Written with einsum, without the reference's `saved`, and without its options."""
    def attention_backward(do, q, k, v):
        B, H, T, D = q.shape
        scores = np.einsum("bhtd,bhsd->bhts", q, np.repeat(k, H // k.shape[1], 1)) / np.sqrt(D)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        p = e / e.sum(-1, keepdims=True)
        dp = np.einsum("bhtd,bhsd->bhts", do, np.repeat(v, H // v.shape[1], 1))
        ds = p * (dp - np.sum(p * dp, -1, keepdims=True)) / np.sqrt(D)
        dq = np.einsum("bhts,bhsd->bhtd", ds, np.repeat(k, H // k.shape[1], 1))
        dk, dv = np.einsum("bhts,bhtd->bhsd", ds, q), np.einsum("bhts,bhtd->bhsd", p, do)
        return dq, *(x.reshape(B, k.shape[1], -1, *x.shape[2:]).sum(2) for x in (dk, dv))

    name = "scaled_dot_product_attention_backward"
    verdict = check(name, attention_backward)
    assert verdict.levels[:3] == ("plain", "values of another width", "more queries than keys")
    assert "not asked for: pattern, scale, slopes, " in verdict.text
    named = check(name, attention_backward, levels=["plain", "grouped heads"])
    assert named and named.levels == ("plain", "grouped heads")


def test_a_verdict_names_the_entry_and_both_numbers():
    def backward(dy, x):
        dx = F.sigmoid_backward(dy, F.sigmoid(x)[1])
        dx.flat[3] *= 1.01
        return dx

    verdict = check("sigmoid_backward", backward, seed=5)
    assert verdict.output == "dx" and len(verdict.index) == 2
    assert verdict.error == pytest.approx(0.01, rel=0.7)
    assert verdict.found == pytest.approx(1.01 * verdict.reference) and verdict.cause == ""
    assert "wrong in 1 of" in verdict.text and str(verdict.index) in verdict.text
    assert repr(verdict) == str(verdict)


def raises(dy, x):
    return np.ones(3) @ np.ones(4)


def writes(dy, x):
    x += 1
    return dy


def writes_into_saved(dy, saved):
    closed, = saved
    dx = np.where(closed, 0, dy)
    closed[:] = True
    return dx


def writes_into_dy(dy, x):
    dy *= 0
    return dy


@pytest.mark.parametrize("fn, words", [
    (raises, "it raised ValueError: matmul"), (writes, "it writes into its argument x"),
    (writes_into_dy, "it writes into its argument dy"),
    (writes_into_saved, "it writes into an array of saved"),
    (lambda dy, x: None, "not written yet"),
    (lambda dy, x: (dy, dy), "it returned 2 arrays, but must return 1: dx"),
    (lambda dy, x: dy[0], "dx has shape"),
    (lambda dy, x: dy.astype(int), "but is one of int64"),
    (lambda dy, x: dy * np.nan, "dx contains NaN, first at (0, 0)"),
    (lambda dy, x: dy.astype(np.float32), "but is one of float32"),
    (lambda dy, x: dy.astype(object), "but is one of object"),
    (lambda dy, x: dy + 0j, "but is one of complex128"), (lambda dy, x: "dx", "but is str"),
    (lambda dy, x: [1, [2, 3]], "it returned 2 arrays"), (lambda dy, x: (None,), "but is NoneType"),
    (lambda dy, x: iter([dy]), "but is list_iterator"), (lambda dy, x: (), "it returned 0 arrays"),
    (lambda dy, x: dy / 0, "dx contains Inf"), (lambda dy, x: 0 * dy, "dx is zero everywhere"),
    (lambda dy: dy, "it raised TypeError"),
    (lambda dy, x: -F.relu_backward(dy, F.relu(x)[1]), "the sign of dx is wrong"),
    (lambda dy, x: 3 * F.relu_backward(dy, F.relu(x)[1]),
     "3 times the reference everywhere, for all shapes"),
    (lambda dy, x: F.relu_backward(dy, F.relu(x)[1]) / x.size, "a mean instead of a sum")])
def test_each_kind_of_wrong_answer_is_named(fn, words):
    verdict = check("relu_backward", fn, seed=3)
    assert not verdict and words in verdict.text, str(verdict)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_factor_that_depends_on_a_size_is_not_called_constant(seed):
    def backward(do, q, k, v):
        return tuple(k.shape[-2] * gradient for gradient in F.scaled_dot_product_attention_backward(
            do, F.scaled_dot_product_attention(q, k, v)[1]))

    verdict = check("scaled_dot_product_attention_backward", backward, seed=seed, levels=["plain"])
    assert not verdict and "a factor that depends on a size" in verdict.cause


def test_forwards_are_checked_too():
    wrong = check("softmax", lambda x: np.exp(x) / np.exp(x).sum(0, keepdims=True))
    assert not wrong and wrong.output == "y" and "y is wrong in" in wrong.text
    assert check("softmax",
                 lambda x, axis=-1: F.softmax(x)[0], seed=4).text.endswith(
                     "passed before: plain.\nseed=4")


def test_a_verdict_lists_the_levels_that_passed():
    def softmax_backward(dp, x, axis=-1, mask=None):
        p, _ = F.softmax(x, mask=mask)
        return p * (dp - (p * dp).sum(-1, keepdims=True))

    verdict = check("softmax_backward", softmax_backward)
    assert not verdict and "Level of this problem: axis=0; passed before: plain." in verdict.text


@pytest.mark.slow
def test_the_first_wrong_gradient_is_reported_whatever_follows_it():
    """Later outputs may be wrong in any other way, too."""
    def backward(dy, x, weight, bias):
        dx, dweight, dbias = F.layer_norm_backward(dy, F.layer_norm(x, weight, bias)[1])
        return dx + 1e-8, dweight, 2 * dbias

    verdict = check("layer_norm_backward", backward, seed=1)
    assert verdict.output == "dx" and "dx is right to 8 digits" in verdict.cause
    for other in (np.array(["a"]), np.array([None]), [1, [2]], None):
        verdict = check("layer_norm_backward",
                        lambda dy, x, weight, bias: (0.5 * dy, other, weight), seed=1)
        assert not verdict and verdict.output == "dweight"
        assert "must be an array of float64" in verdict.text


@pytest.mark.parametrize("seed", every(4, range(20)))
def test_a_function_that_is_right_for_some_shapes_only(seed):
    """Wrong for more rows than columns: there is an answer whatever the second instance shows."""
    verdict = check("softmax_backward",
                    lambda dp, x: F.softmax_backward(dp, F.softmax(x)[1])
                    * (1 if x.shape[0] < x.shape[1] else 2), seed)
    assert verdict or "dx is wrong in" in verdict.text


def test_functions_of_any_signature_can_be_checked():
    assert check("layer_norm_backward",
                 lambda dy, saved, debug=False: F.layer_norm_backward(dy, saved))
    assert check("softmax_backward", lambda dy, saved, **more: F.softmax_backward(dy, saved))
    assert check("swish", lambda x, beta: F.swish(x, beta))
    assert check("softmax", lambda x, axis: F.softmax(x, axis)[0])
    assert check("softmax", lambda x, axis=-1, /: F.softmax(x, axis)[0])
    assert check("softmax_backward",
                 lambda *arguments: F.softmax_backward(arguments[0], F.softmax(arguments[1])[1]))
    assert not check("relative_position_bias_backward", lambda dbias, table, T, S: table)
    assert not check("relative_position_bias_backward",
                     lambda dbias, table, T, S, max_distance: "nonsense")


def test_an_exception_names_the_line_of_the_students_file():
    def wrong_axis(dy, x):
        return np.mean(dy, axis=7)

    line = wrong_axis.__code__.co_firstlineno + 1
    assert (f"AxisError: axis 7 is out of bounds for array of dimension 2 in line {line}; "
            "its arguments were dy") in check("relu_backward", wrong_axis).text
    verdict = check("relu_backward", lambda: 1)
    assert "it raised TypeError" in verdict.text and " in line" not in verdict.text


def test_overflow_for_large_scores_is_found():
    def softmax(x, axis=-1, mask=None):
        if abs(x).max() < 300:
            return F.softmax(x, axis, mask)[0]
        return np.exp(x) / np.exp(x).sum(axis, keepdims=True)

    verdict = check("softmax", softmax)
    assert not verdict and "y contains NaN" in verdict.text and "scores near 1000" in verdict.text


def test_a_wrong_dropout_mask_gets_the_hint():
    verdict = check("dropout",
                    lambda x, rate, rng: np.where(rng.random(x.shape) >= rate, x / (1 - rate), 0))
    assert not verdict and "dropout_mask(dropout_seed(rng), x.shape, rate)" in verdict.text


def test_bad_arguments_are_refused():
    for seed in (-5, 1.5, "a"):
        with pytest.raises(ValueError, match="seed="):
            check("relu", F.relu, seed)
    with pytest.raises(ValueError,
                       match="'attenshun' is not a function that can be checked; choose from "
                             "add_by_distance, additive_scores"):
        check("attenshun", raises)
    with pytest.raises(ValueError, match="3 is not a function"):
        check(3, raises)
    with pytest.raises(TypeError, match="fn must be a function, but is int"):
        check("relu", 3)


class Foreign:
    """An array of another library; one that holds nothing raises, as a tensor with a graph does."""

    def __init__(self, x=None):
        self.x = x

    def __array__(self, dtype=None, copy=None):
        if self.x is None:
            raise RuntimeError("call detach() first")
        return self.x


def test_arrays_of_other_libraries_are_taken():
    assert check("relu", lambda x: Foreign(np.maximum(x, 0)), seed=1)
    assert check("relu", lambda x: (Foreign(np.maximum(x, 0)), x), seed=1)
    backward = check("relu_backward", lambda dy, x: [Foreign(dy * (x > 0))], seed=1)
    assert backward, str(backward)
    assert not check("relu", lambda x: Foreign(np.maximum(x, 1)), seed=1)
    assert "detach" in check("relu", lambda x: Foreign(), seed=1).text


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_outputs_without_a_finite_number_have_no_likely_cause(number):
    """Whatever overflows, too, would explain them."""
    verdict = check("softmax", lambda x: np.full(x.shape, number), seed=1)
    assert not verdict and verdict.output == "y" and not verdict.cause


@pytest.mark.parametrize("raising", [1, 2])
def test_what_raises_in_one_of_two_calls_is_shown(raising):
    calls = []

    def relu(x):
        calls.append(x)
        if len(calls) == raising:
            raise ValueError("I only work once")
        return F.relu(x)[0]

    verdict = check("relu", relu)
    assert not verdict and not verdict.random
    assert "it raised ValueError: I only work once" in verdict.text
    assert "call with the same arguments had a result" in verdict.text
    assert "two calls with the same arguments gave different" not in verdict.text
