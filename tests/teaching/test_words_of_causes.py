"""A cause speaks of what a student has read: arguments, gradients and symbols of the formulas.

All changes of one line that `check` may name are walked over. A text that only somebody could
understand who has seen our code is none: then there is no cause, or one written by hand.
"""

import re

import numpy as np
import pytest

from marks import every
from numformer import check
from numformer import functional as F
from numformer.specifications import PROBLEMS, Instance
from numformer.teaching.causes.words import changed_line, known_names, unknown_names
from numformer.teaching.mutations import pairs_of
from numformer.teaching.mutations.statements import numbers_of, terms_left_out

# nobody knows which expression, which axis, the power of what
VAGUE = ("an expression", "a term", "intermediate", "option axis", "the axis axis", "...`",
         "what is done")


def told(name):
    """The words of all changes of one line that have some."""
    base, backward = name.removesuffix("_backward"), name.endswith("_backward")
    problem = PROBLEMS[base]
    functions = (problem.function, problem.gradient) if backward else (problem.function,)
    levels = [level for level in problem.levels if not problem.levels[level].hint]
    instance = Instance(problem, levels[-1], 3)           # with options, if it has any
    for pair in pairs_of(name):
        with np.errstate(all="ignore"):
            changes = [pair.made_from(kind, instance.dy(), *instance.arguments())
                       for kind in (terms_left_out, numbers_of)]
            changes.append(pair.mutants(instance.dy(), *instance.arguments()))
        for mutant in (mutant for each in changes for mutant in each):
            words = changed_line(mutant, *functions)
            if words:
                yield words


@pytest.mark.parametrize("name", every(34, sorted(
    name + end for name in PROBLEMS for end in ("", "_backward"))))
def test_every_change_is_told_in_names_that_are_known(name):
    base = name.removesuffix("_backward")
    known = known_names(*[getattr(F, each) for each in dict.fromkeys([base, name])])
    for words in told(name):
        assert not unknown_names(words, known), words
        assert not any(vague in words for vague in VAGUE), words
        assert not re.search(r"power \S+(, not \S+)?$", words), f"the power of what? {words}"
        assert "e+30" not in words, f"a mask by a number that nobody has written: {words}"


def test_most_changes_have_words():
    """Else there would be no causes, and the rule would hold of nothing."""
    for name in ("softmax_backward", "layer_norm_backward", "gelu_backward", "attention_backward"):
        assert len(set(told(name))) > 50, name


@pytest.mark.parametrize("name, inside", [
    ("relu_squared", "positive"), ("cross_entropy", "counts"), ("batch_norm", "statistics"),
    ("softmax", "weights"), ("gelu_tanh", "near"), ("rms_norm", "rrms"), ("z_loss", "top"),
    ("rotary", "first"), ("gated_linear_unit", "slope"), ("layer_norm", "saved")])
def test_a_variable_of_our_code_is_not_known(name, inside):
    assert inside not in known_names(getattr(F, name), getattr(F, f"{name}_backward"))


def test_the_output_is_known_in_a_backward_whose_formula_has_it():
    assert "y" in known_names(F.sigmoid, F.sigmoid_backward)
    assert "y" not in known_names(F.relu_squared, F.relu_squared_backward)
    assert "y" in known_names(F.relu_squared)


# ---- what students wrote, and what they must not read --------------------------------------------

def softmax_over(axis):
    def softmax(x):
        e = np.exp(x - x.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True)
    return softmax


def rms_norm_parts(x, epsilon):
    r = ((x * x).mean(axis=-1, keepdims=True) + epsilon) ** -0.5
    return r, x * r


def rms_with_x(dy, x, weight, epsilon=1e-5):
    r, x_hat = rms_norm_parts(x, epsilon)
    g, axes = dy * weight, tuple(range(x.ndim - 1))
    return r * (g - x * (g * x_hat).mean(axis=-1, keepdims=True)), (dy * x_hat).sum(axis=axes)


def rms_with_half(dy, x, weight, epsilon=1e-5):
    r, x_hat = rms_norm_parts(x, epsilon)
    g, axes = dy * weight, tuple(range(x.ndim - 1))
    return (r * (g - x_hat * (g * x_hat).mean(axis=-1, keepdims=True) / 2),
            (dy * x_hat).sum(axis=axes))


def mean_over_the_batch(dz, q, k, W):
    return dz @ k @ W.T, dz.mT @ q @ W, (q.mT @ dz @ k).mean(axis=0)


def attention_over_queries(q, k, v):
    return softmax_over(-2)(q @ k.mT * q.shape[-1] ** -0.5) @ v


def without_logarithm(logits, targets):
    m = logits.max(axis=-1, keepdims=True)
    total = np.exp(logits - m).sum(axis=-1, keepdims=True)
    return -np.take_along_axis(logits - m - total, targets[..., None], axis=-1).mean()


@pytest.mark.parametrize("name, function", [
    ("softmax", softmax_over(None)), ("softmax", softmax_over(-2)),
    ("rms_norm_backward", rms_with_x), ("rms_norm_backward", rms_with_half),
    ("general_scores_backward", mean_over_the_batch), ("attention", attention_over_queries),
    ("softmax_cross_entropy", without_logarithm),
    ("relu_squared_backward", lambda dy, x: dy * np.maximum(x, 0)),
    ("relu_squared_backward", lambda dy, x: 2 * np.maximum(x, 0)),
    ("relu_squared_backward", lambda dy, x: dy * 2 * np.where(x > 1, x, 0)),
    ("gelu_tanh", lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (
        x + 0.044715 * x ** 2))))])
def test_a_wrong_answer_gets_known_names_or_none(name, function):
    cause = check(name, function, seed=0).cause
    base = name.removesuffix("_backward")
    functions = [getattr(F, base), getattr(F, name)][:1 + (base != name)]
    assert not unknown_names(cause, known_names(*functions)), cause
    assert not any(vague in cause for vague in VAGUE), cause
    print(name, "|", cause)
