"""The exercises of the course: what students and teachers get, and what differs between seeds."""

import ast
from functools import partial

import pytest

from marks import every
from numformer.specifications import PROBLEMS
from numformer.teaching import all_exercises, check
from numformer.teaching.exercise import find_exercises
from numformer.teaching.judge import judge as judge_in_time
from numformer.teaching.judge import judge_answers
from numformer.teaching.support.effort import effort

judge = partial(judge_in_time, seconds=600.0)         # on a busy machine, too

EXERCISES = all_exercises()
SEEDS = range(4)


def by_kind(kind):
    return [exercise for exercise in EXERCISES if exercise.kind == kind]


def test_there_are_enough_exercises_of_each_kind():
    names = [exercise.name for exercise in EXERCISES]
    assert [int(name[:2]) for name in names] == [*range(1, len(names) + 1)] and len(names) >= 36
    assert sum("_bug_in_" in name
               for name in names) == 6 and sum("_figure_" in name for name in names) == 6
    functions = [exercise.function(0) for exercise in by_kind("check")]
    assert all(function.removesuffix("_backward") in PROBLEMS for function in functions)
    assert sum(function.endswith("_backward") for function in functions) >= 16
    for exercise in EXERCISES:
        assert exercise.title.endswith(".") and exercise.text and 1 <= exercise.points <= 5
        found = effort(exercise)
        assert 5 <= found.minutes <= 50 and found.lines >= 1 <= found.ideas <= 4
        assert found.difficulty in ("easy", "medium", "hard")
        for needed in exercise.header("needs").split(", "):
            known = needed in ("nothing", "activation") or any(needed in name for name in names)
            assert known, f"{exercise.name} needs {needed}"


@pytest.mark.parametrize("exercise", every(16, EXERCISES), ids=lambda exercise: exercise.name)
def test_the_teachers_file_is_right_and_the_students_is_not(exercise, tmp_path):
    for seed in SEEDS if exercise.kind == "check" else (0, 3):
        teacher, student = tmp_path / f"teacher{seed}.py", tmp_path / f"student{seed}.py"
        teacher.write_text(exercise.teacher(seed))
        student.write_text(exercise.student(seed))
        right, untouched = judge(teacher, exercise.name, seed), judge(student, exercise.name, seed)
        assert right["score"] == 1.0 and right["feedback"].startswith("right"), right
        assert (untouched["score"], untouched["parts"]) == (0.0, {})
        if "_bug_in_" in exercise.name:               # what differs is shown, the cause is not
            assert untouched["feedback"].startswith("not begun: ")
            assert "wrong" in untouched["feedback"] or "must have" in untouched["feedback"]
            assert "Likely cause" not in untouched["feedback"]
        else:
            assert untouched["feedback"] == "not done yet"
        student.write_text("# mine\n" + exercise.student(seed))
        wrong = judge(student, exercise.name, seed)
        assert wrong["score"] == 0.0, wrong
        assert ("not done yet" in wrong["feedback"]) != ("_bug_in_" in exercise.name), wrong


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)
def test_the_students_file_holds_no_solution_and_no_marks(exercise):
    for seed in SEEDS:
        student, teacher = exercise.student(seed), exercise.teacher(seed)
        ast.parse(student), ast.parse(teacher)
        assert not any(mark in student for mark in ("SOLUTION", "BUG", "TEACHER", "VARIANT",
                                                    "HINTS", "# ideas", "the student's bug"))
        assert not any(hint[:40] in student for hint in exercise.hints(seed))
        assert not any(mark in teacher for mark in ("BEGIN BUG", "VARIANT"))
        assert "# BEGIN" not in student and "\n\n\n\n" not in student
        assert student.endswith("\n") and not student.endswith("\n\n")


def test_no_text_of_an_exercise_holds_its_answer():
    """What a student reads above a function has to leave something to derive."""
    (exercise,) = find_exercises(["10"])
    assert "dx = r" not in exercise.student(0) and "dx = r" in exercise.teacher(0)


def test_an_untouched_file_stays_one_whatever_its_spaces(tmp_path):
    (exercise,) = find_exercises(["25"])
    path = tmp_path / "student.py"
    for text in (exercise.student(0).replace("\n", "\r\n"), exercise.student(0) + "\n\n  \n"):
        path.write_bytes(text.encode())
        assert judge(path, exercise.name, 0)["feedback"].startswith("not begun: ")


def test_seeds_vary_bugs_numbers_and_functions():
    by_name = {exercise.name[3:]: exercise for exercise in EXERCISES}
    assert len({by_name["bug_in_layer_norm_backward"].student(seed) for seed in range(12)}) == 3
    assert len({by_name["figure_mask"].student(seed) for seed in range(40)}) == 12
    assert {by_name["activation"].function(seed)
            for seed in range(12)} == {"silu", "gelu_tanh", "relu_squared"}
    assert {by_name["activation_backward"].function(seed) for seed in range(12)} == {
        "silu_backward", "gelu_tanh_backward", "relu_squared_backward"}
    assert all(exercise.student(5) == exercise.student(5) for exercise in EXERCISES)


def test_both_exercises_on_activations_have_the_same_activation():
    by_name = {exercise.name: exercise for exercise in EXERCISES}
    for seed in range(12):
        function = by_name["05_activation"].function(seed)
        assert by_name["06_activation_backward"].function(seed) == function + "_backward"


@pytest.mark.slow
def test_the_figures_show_what_their_titles_say():
    """For all seeds: plain scores saturate the softmax; pre-norm has smaller last gradients."""
    for number, expected in (("32", {"gradient": "scaled"}),
                             ("34", {"falls": "before", "careful": "after"})):
        exercise, variants = next(exercise for exercise in EXERCISES
                                  if exercise.name.startswith(number)), {}
        for seed in range(40):
            variants.setdefault(exercise.teacher(seed), seed)
        for source in variants:
            module = {}
            exec(source, module)
            answers = module["answers"]()
            assert {question: answers[question] for question in expected} == expected, source
            assert answers.get("times", 9) > 2


@pytest.mark.slow
def test_a_step_size_near_the_best_is_right():
    exercise = find_exercises(["36"])[0]
    module = {}
    exec(exercise.teacher(0), module)
    expected, difference = module["answers"](), module["errors"]()["central_difference"]
    for step, error in zip(module["STEPS"], difference):
        feedback = judge_answers(exercise.name,
                                 lambda: {**expected, "best": step, "left": " Rounding"}, seed=0)
        assert feedback.startswith("right") == (error <= 3 * difference.min()), (step, feedback)


@pytest.mark.slow
def test_the_cause_of_a_bug_is_kept_back_until_it_is_asked_for_or_found(tmp_path):
    causes = {}
    for exercise in EXERCISES:
        if "_bug_in_" in exercise.name:
            for seed in range(12):
                path, bug = tmp_path / "student.py", exercise.bug(seed)
                if (exercise.name, bug) in causes:
                    continue
                path.write_text("# mine\n" + exercise.student(seed))
                wrong = judge(path, exercise.name, seed)
                assert wrong["score"] == 0
                assert "Likely cause" not in wrong["feedback"] and bug not in wrong["feedback"]
                assert "found" in wrong["feedback"] or "wrong" in wrong["feedback"], wrong
                path.write_text(exercise.teacher(seed))
                assert judge(path, exercise.name, seed)["feedback"].endswith(
                    f"was: {bug}. seed={seed}")
                *first, last = exercise.hints(seed)
                assert bug in last and not any(bug in hint for hint in first)
                module = {}
                exec(exercise.student(seed), module)
                function = exercise.function(seed)
                causes[exercise.name, bug] = check(function, module[function], seed,
                                                      exercise.levels).cause
    assert len(causes) == 16 and all(causes.values()), causes


def test_a_cause_does_not_quote_the_solution(tmp_path):
    (exercise,), path = find_exercises(["2"]), tmp_path / "student.py"
    path.write_text(exercise.teacher(0).replace("p * (dp - (p * dp)", "x * (dp - (x * dp)"))
    feedback = judge(path, exercise.name, 0)["feedback"]
    assert "come out with `x` in place of `p`" in feedback
    assert feedback.startswith("dx is wrong in") and "dp - s" not in feedback


@pytest.mark.parametrize("number, old, new", [
    ("01", "x.max(axis=-1, keepdims=True)", "x.max()"),
    ("01", "x.max(axis=-1, keepdims=True)", "0"),
    ("02", "x.max(axis=-1, keepdims=True)", "x.max()"),
    ("15", "scores.max(axis=-1, keepdims=True)", "scores.max()"),
    ("16", "scores.max(axis=-1, keepdims=True)", "scores.max()")])
def test_one_maximum_for_all_rows_or_none_costs_points(number, old, new, tmp_path):
    (exercise,) = find_exercises([number])
    path = tmp_path / "student.py"
    assert old in exercise.teacher(0)
    path.write_text(exercise.teacher(0).replace(old, new))
    assert 0.7 <= judge(path, exercise.name, 0)["score"] < 1
