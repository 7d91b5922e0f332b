"""`numformer.check`: right functions pass, and every way to be wrong gets an answer that a student understands."""

import numpy as np
import pytest

from numformer import check
from numformer import functional as F
from numformer.verify.exercises import EXERCISES
from numformer.verify.likely_cause import MISTAKES


@pytest.mark.parametrize("name", EXERCISES)
def test_the_truth_is_right(name):
    exercise = EXERCISES[name]
    for function, called in ((exercise.function, name), (exercise.gradient, f"{name}_backward")):
        verdict = check(called, function)
        assert verdict and verdict.ok and str(verdict).startswith("right") and "not tried" not in str(verdict)


def test_every_pair_is_an_exercise():
    assert {exercise.gradient for exercise in EXERCISES.values()} == {getattr(F, n) for n in F.__all__ if n.endswith("_backward")}


@pytest.mark.parametrize("name, number", [(name, k) for name in MISTAKES for k in range(len(MISTAKES[name]))])
def test_every_known_mistake_is_recognised(name, number):
    """And as itself, so no two of them are the same."""
    cause, mistake = MISTAKES[name][number]
    verdict = check(name, mistake, seed=number)
    assert not verdict and verdict.cause == cause and f"Likely cause: {cause}." in str(verdict)


def test_a_students_own_way_is_right():
    """Written differently, without our `saved`, and without options that nobody asked for."""
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

    verdict = check("attention_backward", attention_backward)
    assert verdict and "plain, grouped heads" in str(verdict) and "not tried, as it has no such argument: a causal pattern" in str(verdict)


def test_what_the_answer_holds():
    verdict = check("sigmoid_backward", lambda dy, x: F.sigmoid_backward(dy, F.sigmoid(x)[1]) * np.where(np.arange(x.size) == 3, 1.01, 1)
                    .reshape(x.shape), seed=5)
    assert verdict.output == "dx" and len(verdict.index) == 2 and verdict.error == pytest.approx(0.01, rel=0.7)
    assert verdict.found == pytest.approx(1.01 * verdict.truth) and verdict.cause == ""
    assert "wrong in 1 of" in str(verdict) and str(verdict.index) in str(verdict) and repr(verdict) == str(verdict)


def raises(dy, x):
    return np.ones(3) @ np.ones(4)


def writes(dy, x):
    x += 1
    return dy


def writes_into_dy(dy, x):
    dy *= 0
    return dy


@pytest.mark.parametrize("fn, words", [
    (raises, "it raised ValueError: matmul"), (writes, "it writes into its argument x"),
    (writes_into_dy, "it writes into its argument dy"),
    (lambda dy, x: None, "dx must be an array of float64, as what came in is, but is NoneType"),
    (lambda dy, x: (dy, dy), "it returned 2 arrays, but must return 1: dx"), (lambda dy, x: dy[0], "dx has shape"),
    (lambda dy, x: dy.astype(int), "but is one of int64"), (lambda dy, x: dy * np.nan, "dx holds NaN, first at (0, 0)"),
    (lambda dy, x: dy.astype(np.float32), "but is one of float32"), (lambda dy, x: dy.astype(object), "but is one of object"),
    (lambda dy, x: dy + 0j, "but is one of complex128"), (lambda dy, x: "dx", "but is str"),
    (lambda dy, x: [1, [2, 3]], "it returned 2 arrays"), (lambda dy, x: (None,), "but is NoneType"),
    (lambda dy, x: iter([dy]), "but is list_iterator"), (lambda dy, x: (), "it returned 0 arrays"),
    (lambda dy, x: dy / 0, "dx holds Inf"), (lambda dy, x: 0 * dy, "dx is zero everywhere"), (lambda dy: dy, "it raised TypeError"),
    (lambda dy, x: -F.relu_backward(dy, F.relu(x)[1]), "the sign of dx is turned"),
    (lambda dy, x: 3 * F.relu_backward(dy, F.relu(x)[1]), "3 times the truth everywhere, whatever the shapes"),
    (lambda dy, x: F.relu_backward(dy, F.relu(x)[1]) / x.size, "a mean taken for a sum")])
def test_plain_answers(fn, words):
    verdict = check("relu_backward", fn, seed=3)
    assert not verdict and words in str(verdict), str(verdict)


@pytest.mark.parametrize("seed", range(20))
def test_a_factor_that_goes_with_a_size_is_not_called_constant(seed):
    def backward(do, q, k, v):
        return tuple(k.shape[-2] * gradient for gradient in F.scaled_dot_product_attention_backward(
            do, F.scaled_dot_product_attention(q, k, v)[1]))

    verdict = check("scaled_dot_product_attention_backward", backward, seed=seed, levels=["plain"])
    assert not verdict and "a factor that goes with a size" in verdict.cause


def test_forwards_are_checked_too():
    wrong = check("softmax", lambda x: np.exp(x) / np.exp(x).sum(0, keepdims=True))
    assert not wrong and wrong.output == "y" and "y is wrong in" in str(wrong)
    assert check("softmax", lambda x, axis=-1: F.softmax(x)[0]).text.endswith("right before: plain.")


def test_what_is_right_so_far_is_said():
    def softmax_backward(dp, x, axis=-1, mask=None):
        p, _ = F.softmax(x, mask=mask)
        return p * (dp - (p * dp).sum(-1, keepdims=True))

    verdict = check("softmax_backward", softmax_backward)
    assert not verdict and "This was with: axis=0; right before: plain." in str(verdict)


def test_only_the_first_wrong_gradient_gets_a_cause():
    """And what is wrong in another way behind it does no harm."""
    def backward(dy, x, gain, shift):
        dx, dgain, dshift = F.layer_norm_backward(dy, F.layer_norm(x, gain, shift)[1])
        return dx + 1e-8, dgain, 2 * dshift

    verdict = check("layer_norm_backward", backward, seed=1)
    assert verdict.output == "dx" and verdict.cause == ""
    for other in (np.array(["a"]), np.array([None]), [1, [2]], None):
        verdict = check("layer_norm_backward", lambda dy, x, gain, shift: (0.5 * dy, other, gain), seed=1)
        assert not verdict and verdict.output == "dgain" and "must be an array of float64" in str(verdict)


@pytest.mark.parametrize("seed", range(20))
def test_a_function_that_is_right_now_and_then(seed):
    """Wrong where there are more rows than columns: whatever the second problem says, there is an answer."""
    verdict = check("softmax_backward", lambda dp, x: F.softmax_backward(dp, F.softmax(x)[1]) * (1 if x.shape[0] < x.shape[1] else 2), seed)
    assert verdict or "dx is wrong in" in str(verdict)


def test_signatures_of_all_kinds():
    assert check("layer_norm_backward", lambda dy, saved, debug=False: F.layer_norm_backward(dy, saved))
    assert check("softmax_backward", lambda dy, saved, **more: F.softmax_backward(dy, saved))
    assert check("swish", lambda x, beta: F.swish(x, beta)) and check("softmax", lambda x, axis: F.softmax(x, axis)[0])
    assert check("softmax", lambda x, axis=-1, /: F.softmax(x, axis)[0])
    assert check("softmax_backward", lambda *arguments: F.softmax_backward(arguments[0], F.softmax(arguments[1])[1]))
    assert not check("relative_position_bias_backward", lambda dbias, table, T, S: table)
    assert not check("relative_position_bias_backward", lambda dbias, table, T, S, max_distance: "nonsense")


def test_the_line_is_the_students_own():
    def wrong_axis(dy, x):
        return np.mean(dy, axis=7)

    line = wrong_axis.__code__.co_firstlineno + 1
    words = f"AxisError: axis 7 is out of bounds for array of dimension 2 in line {line}; it was given dy"
    assert words in str(check("relu_backward", wrong_axis))
    assert "it raised TypeError" in str(check("relu_backward", lambda: 1)) and " in line" not in str(check("relu_backward", lambda: 1))


def test_scores_that_overflow():
    verdict = check("softmax", lambda x, axis=-1, mask=None: F.softmax(x, axis, mask)[0] if abs(x).max() < 300 else
                    np.exp(x) / np.exp(x).sum(axis, keepdims=True))
    assert not verdict and "y holds NaN" in str(verdict) and "scores near 1000" in str(verdict)


def test_dropout_says_which_draw_it_means():
    verdict = check("dropout", lambda x, rate, rng: np.where(rng.random(x.shape) >= rate, x / (1 - rate), 0))
    assert not verdict and "dropout_mask(dropout_seed(rng), x.shape, rate)" in str(verdict)


def test_bad_arguments():
    for seed in (-5, 1.5, "a"):
        with pytest.raises(ValueError, match="seed="):
            check("relu", F.relu, seed)
    with pytest.raises(ValueError, match="'attenshun' is no exercise; there are attention, linear, softmax"):
        check("attenshun", raises)
    with pytest.raises(ValueError, match="3 is no exercise"):
        check(3, raises)
    with pytest.raises(TypeError, match="fn must be a function, but is int"):
        check("relu", 3)
