"""Verdicts and hints call the arguments as the student's signature does."""

import inspect
import re

import numpy as np
import pytest

from numformer import check, hint
from numformer.specifications import PROBLEMS, find_problem, hints_of
from numformer.teaching import all_exercises
from numformer.teaching.own_names import own_names, renamed


def general_scores_backward(dz, q, k, W):
    return dz @ k @ W, dz.mT @ q @ W, (q.mT @ dz @ k).sum(axis=0)


def test_a_verdict_has_the_names_of_the_signature():
    verdict = check("general_scores_backward", general_scores_backward, seed=0)
    assert "the weight is not transposed in dq" in verdict.words
    other = check("general_scores_backward", lambda dz, q, k, W: (
        dz @ k @ W.T, dz.mT @ q @ W, (q.mT @ dz @ k)), seed=0)
    assert "dW has shape" in other.words and other.output == "dweight"


def test_the_shapes_of_what_raised_are_those_of_the_own_arguments():
    def backward(dz, a, W, b):
        return dz @ W

    text = check("linear_backward", backward, seed=0, levels=["other widths"]).text
    assert re.search(r"its arguments were dz \(.*\), a \(.*\), W \(.*\), b \(", text), text


def test_the_gradient_of_a_loss_is_called_as_it_came():
    def backward(dloss, logits):
        e = np.exp(logits - logits.max(axis=-1, keepdims=True))
        total = e.sum(axis=-1, keepdims=True)
        lse = logits.max(axis=-1, keepdims=True) + np.log(total)
        return 2 * lse * e / total / len(logits)

    assert "dloss is not used" in check("z_loss_backward", backward, seed=0).words


@pytest.mark.parametrize("text, expected", [
    ("x and the weight are exchanged", "z and the weight are exchanged"),
    ("dx is dy @ weight.T", "dz is dy @ W.T"), ("`x * weight`, not `weight`", "`z * W`, not `W`"),
    ("its arguments were x (2, 3), weight (3, 4)", "its arguments were z (2, 3), W (3, 4)"),
    ("Level of this problem: a weight; passed before: x.",
     "Level of this problem: a weight; passed before: x."), ("max_x, exp(x)", "max_x, exp(z)")])
def test_words_stay_words(text, expected):
    assert renamed(text, {"x": "z", "dx": "dz", "weight": "W", "dweight": "dW"}) == expected


def test_exchanged_names_are_exchanged_at_once():
    assert renamed("q @ k.mT", {"q": "k", "k": "q"}) == "k @ q.mT"


def test_a_function_that_takes_saved_or_anything_keeps_the_names():
    problem = PROBLEMS["linear"]
    assert own_names(lambda dz, saved: None, problem, True) == {"dy": "dz"}
    assert own_names(lambda *anything, **more: None, problem, True) == {}
    assert own_names(lambda _, x, weight: None, problem, True) == {}
    assert own_names(max, problem, False) == {}


def test_a_hint_has_the_names_of_the_function_that_was_checked():
    check("log_softmax_backward", lambda dy, z: None, seed=0)
    text = " ".join(str(hint("log_softmax_backward", level=3)).split())
    assert "dz = dy - p * s" in text
    check("log_softmax", lambda x: None, seed=0)
    assert "axis," not in str(hint("log_softmax", level=2))
    check("log_softmax", lambda x, axis=-1: None, seed=0)
    assert "or along axis," in " ".join(str(hint("log_softmax", level=2)).split())


@pytest.mark.parametrize("exercise", [
    each for each in all_exercises() if each.kind == "check" and not each.has_own_hints],
                         ids=lambda each: each.name)
def test_no_hint_names_an_option_that_the_exercise_lacks(exercise):
    for seed in range(12):
        function = exercise.function(seed)
        problem = find_problem(function)[1]
        options = [name for name, parameter in inspect.signature(
            problem.function).parameters.items() if parameter.default is not parameter.empty
            and name not in exercise.parameters(seed) and name not in PLAIN]
        said = " ".join(exercise.hints(seed))
        assert not [name for name in options if re.search(rf"\b{name}\b(?![= ]*=)", said)], said
        if "pattern" in options:
            assert "group" not in said and "key-value head" not in said, said


# options that are words or symbols of formulas, too: "the axis of the softmax", epsilon
PLAIN = ("axis", "mask", "scale", "activation", "epsilon")


@pytest.mark.parametrize("name", PROBLEMS)
def test_parts_of_hints_are_of_options_that_there_are(name):
    parameters = inspect.signature(PROBLEMS[name].function).parameters
    for texts in (PROBLEMS[name].hints, PROBLEMS[name].backward_hints):
        for text in texts:
            parts = re.findall(r"\{([\w,]+)\|", text)
            assert all(set(part.split(",")) <= set(parameters) for part in parts), text
    for each in (name, f"{name}_backward"):
        for text in (*hints_of(each), *hints_of(each, [])):
            assert not re.search(r"\{\w+\||  |^ | $", text), text
