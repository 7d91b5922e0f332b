"""The cause that `numformer.check` names: right if one is named, not lost by other errors."""

from functools import wraps

import numpy as np
import pytest

from marks import every
from numformer import check
from numformer import functional as F
from numformer.specifications import MISTAKES, PROBLEMS, Instance, find_problem
from numformer.teaching.causes.thresholds import right_sizes

SEVERAL = [(name, number) for name in MISTAKES for number in range(len(MISTAKES[name]))
           if len(find_problem(name)[1].wanted) > 1]


@pytest.mark.parametrize("name, number", every(3, SEVERAL[::6]))
def test_a_cause_survives_an_error_of_the_last_output(name, number):
    _, mistake = MISTAKES[name][number]

    @wraps(mistake)                                              # it has the same parameters
    def first_alone(*arguments, **options):
        outputs = mistake(*arguments, **options)
        right = reference(name, *arguments, **options)
        if all(map(same, outputs[:-1], right)):
            return outputs                                   # the mistake is in the last one
        return (*outputs[:-1], 1.01 * outputs[-1])

    cause = check(name, mistake, seed=number).cause
    found = check(name, first_alone, seed=number).cause
    assert found in (cause, *(f"{cause} (and something else in d{last})"
                              for last in find_problem(name)[1].wanted))


def test_a_cause_does_not_speak_for_an_output_with_another_mistake():
    def backward(do, q, k, v):
        dq, dk, dv = reference("attention_backward", do, q, k, v)
        return dq * q.shape[-1] ** 0.5, -dk, dv              # no scale in dq, another error in dk

    assert check("attention_backward", backward).cause == (
        "the factor 1 / sqrt(D) is missing in dq and dk (and something else in dk)")


def reference(name, dy, *arguments, **options):
    problem = find_problem(name)[1]
    return problem.gradient(dy, problem.function(*arguments, **options)[1])


def same(a, b):
    """Up to rounding, which is of the size of the largest numbers: 1e-10 at scores of -20,000."""
    return np.shape(a) == np.shape(b) and np.allclose(a, b, 1e-9, 1e-9 * np.abs(b).max(initial=0))


def test_right_gradients_in_another_order():
    def backward(do, q, k, v):
        dq, dk, dv = reference("attention_backward", do, q, k, v)
        return dk, dv, dq

    assert check("attention_backward", backward).cause == (
        "the gradients are right, but in another order: dk, dv, dq")


@pytest.mark.parametrize("name, fn, words", [
    ("softmax", lambda x: np.exp(x) / np.exp(x).sum(axis=0), ["as if axis were 0"]),
    ("softmax", lambda x, axis=-1: F.softmax(x)[0], ["axis"]),
    ("layer_norm", lambda x, weight, bias: F.layer_norm(x, weight, 0 * bias)[0],
     ["bias is not added"]),
    ("layer_norm", lambda x, weight, bias: F.layer_norm_outside(x, weight, bias)[0],
     ["layer_norm_outside"]),
    ("layer_norm", lambda x, weight, bias: F.layer_norm(x, weight, bias, 1e-8)[0],
     ["epsilon were 1e-08"]),
    ("gelu", lambda x: F.gelu_tanh(x)[0], ["gelu_tanh"]),
    ("rotary", lambda x, cosine, sine: F.rotary(x, cosine, -sine)[0], ["sine"]),
    ("attention", lambda q, k, v: F.softmax(q @ k.mT)[0] @ v,
     ["multiplied by 1, not by 1 / sqrt(D)"])])
def test_a_forward_gets_a_cause(name, fn, words):
    cause = check(name, fn, seed=3).cause
    assert all(word in cause for word in words), cause


def test_what_is_changed_is_told_and_no_line_is_quoted():
    def backward(dloss, logits):
        return reference("z_loss_backward", dloss, logits) / 2

    assert check("z_loss_backward", backward).cause == (
        "the same numbers come out without the factor `2`")


def of_active(dloss, anchors, positives, negatives):
    """The mean over the triplets that violate the margin: no factor of a size."""
    gradients = reference("triplet_loss_backward", dloss, anchors, positives, negatives)
    active = np.any(gradients[1], axis=-1).sum()
    return tuple(gradient * len(anchors) / active for gradient in gradients)


@pytest.mark.parametrize("seed", every(4, range(8)))
@pytest.mark.parametrize("name, fn, words", [
    ("triplet_loss_backward", of_active, "violate the margin"),
    ("dropout_backward", lambda dy, x, rate, rng: F.dropout_backward(
        dy, F.dropout(x, rate, rng)[1]) * rate, ""),
    ("repeat_kv_heads_backward", lambda dy, x, n_heads: F.repeat_kv_heads_backward(
        dy, F.repeat_kv_heads(x, n_heads)[1]) / 3, "")])
def test_a_factor_of_what_never_varies_is_not_called_constant(name, fn, words, seed):
    cause = check(name, fn, seed).cause
    assert words in cause and "a constant factor" not in cause and "a size" not in cause


def test_repeats_that_are_lost_are_not_called_an_equals_sign():
    def backward(dy, x, slots, k):
        dx = np.zeros_like(x)
        dx[slots // k] += dy
        return dx

    cause = check("dispatch_to_experts_backward", backward).cause
    assert "np.add.at" in cause and "`=` is used instead" not in cause


@pytest.mark.slow
def test_small_errors_match_no_mistake_by_chance():
    """An error of 1e-8 is closer to the reference than to any mistake."""
    def backward(dy, x):
        return F.gelu_backward(dy, F.gelu(x)[1]) * (1 + 1e-8 * np.sin(x * 1e6))

    assert check("gelu_backward", backward, seed=0).cause == (
        "dx is right to 8 digits: something inside is of float32, or a constant is rounded, or a "
        "formula is an approximation")


def test_an_output_that_is_nan_at_some_sizes_is_wrong_there():
    """Whatever its place among the outputs: the largest of errors is NaN if one is."""
    problem = PROBLEMS["linear"]
    instance = Instance(problem, next(iter(problem.levels)), seed=6)

    def outputs_of(instances):
        for each in instances:
            dx, *others = each.expected(backward=True).values()
            bad = np.nan if dx.shape[0] > 5 else 1.0
            yield (dx, *(gradient * bad for gradient in others))

    axis, size = "x.shape[0]", 5
    assert right_sizes(outputs_of, instance, backward=True) == (
        f"it is right while {axis} is at most {size}, and wrong from {size + 1} on")
