"""Points by part: shapes, plain numbers, edges, each gradient for itself; the same each time."""

import numpy as np
import pytest

from numformer import functional as F
from numformer.specifications import PROBLEMS, Instance, find_problem
from numformer.specifications.edges import EDGES
from numformer.teaching import all_exercises
from numformer.teaching.exercise import find_exercise
from numformer.teaching.judge import judge
from numformer.teaching.limits import Stopped
from numformer.teaching.support.credit import credit


def of(number, function, seed=0):
    """output -> its points, and the sum."""
    exercise = find_exercise(number)
    parts = credit(exercise, function, exercise.function(seed), seed)
    assert parts == credit(exercise, function, exercise.function(seed), seed)
    return {name: got for name, (got, _) in parts.items()}


def norm_backward(dy, x, weight, bias):
    return F.layer_norm_backward(dy, F.layer_norm(x, weight, bias)[1])


def changed(index, change):
    def function(*arguments):
        gradients = list(norm_backward(*arguments))
        gradients[index] = change(gradients[index])
        return tuple(gradients)
    return function


@pytest.mark.parametrize("exercise", all_exercises(), ids=lambda exercise: exercise.name)
def test_parts_are_outputs_and_sum_to_the_points(exercise):
    if exercise.parts:
        _, problem, _ = find_problem(exercise.function(0))
        plain = Instance(problem, next(iter(problem.levels)), 0)
        assert list(exercise.parts) == list(plain.expected(backward=True))
        assert sum(exercise.parts.values()) == exercise.points
    assert (exercise.parts == {}) == ("_bug_in_" in exercise.name or exercise.kind == "own")


@pytest.mark.parametrize("index, change, points", [
    (2, lambda dbias: 2 * dbias, {"dx": 2, "dweight": 1, "dbias": 0.1}),
    (2, lambda dbias: dbias[None], {"dx": 2, "dweight": 1, "dbias": 0}),
    (2, lambda dbias: None, {"dx": 2, "dweight": 1, "dbias": 0}),
    (1, lambda dweight: dweight * np.nan, {"dx": 2, "dweight": 0.1, "dbias": 1}),
    (0, lambda dx: -dx, {"dx": 0.2, "dweight": 1, "dbias": 1})])
def test_each_gradient_counts_for_itself(index, change, points):
    assert of(10, changed(index, change)) == points


def test_general_edges_are_levels_of_every_problem():
    for problem in PROBLEMS.values():
        fixed = {"another number of axes"} if problem.last_axes is None else set()
        assert EDGES - fixed < set(problem.levels)


def test_outputs_that_are_missing_cost_their_points():
    assert of(10, lambda *arguments: norm_backward(*arguments)[0]) == {
        "dx": 2, "dweight": 0, "dbias": 0}
    assert of(10, lambda *arguments: "nonsense") == {"dx": 0, "dweight": 0, "dbias": 0}
    assert of(10, lambda *arguments: 1 / 0) == {"dx": 0, "dweight": 0, "dbias": 0}


def test_special_cases_and_edges_are_three_tenths():
    def overflows(x):
        return np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)

    def in_place(x):
        x -= x.max(axis=-1, keepdims=True)
        return overflows(x)

    def with_x(x):
        return overflows(x - x.max(axis=-1, keepdims=True))

    kept = np.empty(0)

    def same_array(x):
        nonlocal kept
        kept = kept if kept.shape == x.shape else np.empty(x.shape)
        kept[:] = with_x(x)
        return kept

    assert of(1, with_x) == {"y": 2}
    # 2 of 2 special cases and 1 of 9 edges have large scores
    assert of(1, overflows) == {"y": pytest.approx(2 * (0.7 + 0.1 * 8 / 9), abs=1e-4)}
    assert of(1, in_place) == {"y": pytest.approx(2 * (0.9 + 0.1 * 8 / 9), abs=1e-4)}
    assert of(1, same_array)["y"] == of(1, in_place)["y"]
    assert of(1, lambda x: np.ones(x.shape)) == {"y": 0.2}


def test_a_function_that_a_limit_stopped_is_not_called_again():
    calls = []

    def slow(x):
        calls.append(x)
        raise Stopped("it ran for more than 1 s and was stopped")

    assert of(1, slow) == {"y": 0} and len(calls) == 2                # of two credits


def test_a_bug_is_all_or_nothing(tmp_path):
    exercise = find_exercise(26)
    assert credit(exercise, norm_backward, "layer_norm_backward", 0) == {}
    path = tmp_path / "student.py"
    path.write_text("# mine\n" + exercise.student(0))
    assert judge(path, exercise.name, 0, seconds=600.0)["score"] == 0


def test_questions_have_equal_parts(tmp_path):
    exercise, path = find_exercise(31), tmp_path / "student.py"
    path.write_text(exercise.student(0).replace(
        'raise NotImplementedError("your turn")',
        'return {"allowed": -1, "first": T - 1 - BEFORE, "layers": -1}'))
    found = judge(path, exercise.name, 0, seconds=600.0)
    assert found["score"] == pytest.approx(1 / 3)
    assert found["parts"] == {"allowed": (0, 2 / 3), "first": (2 / 3, 2 / 3), "layers": (0, 2 / 3)}
