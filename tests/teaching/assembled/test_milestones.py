"""What a student reaches with functions that are right, wrong, endless, or not there."""

import re
from dataclasses import replace

import numpy as np
import pytest

from numformer.teaching import write_assignment
from numformer.teaching.assembled import Plan, assemble, milestones
from numformer.teaching.assembled.milestones import _least_loss
from numformer.teaching.exercise import find_exercises

WORDS = "the dog sleeps", "a fox jumps over it", "who reads this", "zebras run", "no cat barks"
TEXT = ".\n".join(f"{first} and {second}" for first in WORDS for second in WORDS) * 3
PLAN = Plan(TEXT, steps=4, seconds=600, sizes={"WIDTH": 16, "CONTEXT": 8, "LAYERS": 1})
ALL = [*map(str, range(1, 11)), "13", "14", "15", "16", "37", "38", "39", "40"]
NAMES = ["your functions", "together", "first sample", "ten sentences by heart", "trained"]


def solved(folder, numbers, seed=0):
    """A student's folder with our solutions of these exercises, and the assignment of all."""
    write_assignment(folder, seed, ALL)
    for exercise in find_exercises(numbers) if numbers else ():
        (folder / "student" / f"{exercise.name}.py").write_text(exercise.solved(seed))
    return folder / "student"


@pytest.fixture
def graded_by_name(monkeypatch):
    """A grader that believes what is written in a file: a fast one, and wrong on purpose."""
    def grade(folder, seconds, names):
        done = {name: "NotImplementedError" not in (folder / f"{name}.py").read_text()
                for name in names}
        return [{"name": name, "points": int(done[name]), "of": 1,
                 "feedback": "right" if done[name] else "not done yet"} for name in names]
    monkeypatch.setattr(milestones, "grade", grade)


def reached(found):
    return [(each.name, each.reached) for each in found]


@pytest.mark.slow
def test_right_functions_reach_all_milestones(tmp_path, graded_by_name):
    told = []
    found = list(assemble(solved(tmp_path, ALL), PLAN, told.append))
    assert reached(found) == [(name, True) for name in NAMES]
    assert all(each.whose == "yours" for each in found[0].more["functions"])
    assert [each.name for each in found[0].more["functions"] if not each.called] == [
        "softmax_backward"]
    assert found[1].more["error"] < 1e-12 and len(found[2].text) == milestones.FIRST
    assert found[3].more["loss"] < found[3].more["least_loss"] + milestones.NEAR_0
    assert abs(found[4].more["loss"] - found[4].more["reference_loss"]) < 1e-3
    assert set(found[4].text) <= set(TEXT) and told[-1].startswith("ours: step 4 of 4, loss ")


def test_what_is_not_written_is_ours(tmp_path, graded_by_name):
    first = next(assemble(solved(tmp_path, ["3", "16"]), PLAN))
    whose = {each.name: each.whose for each in first.more["functions"]}
    assert first.reached and {name for name in whose if whose[name] == "yours"} == {
        "linear", "scaled_dot_product_attention_backward"}
    assert "2 of 18 functions are yours and right; ours fill in for 16" in first.words


def test_a_function_without_an_exercise_in_the_assignment_is_ours(tmp_path, graded_by_name):
    write_assignment(tmp_path, names=["3", "26", "31"])
    folder = tmp_path / "student"
    (folder / "03_linear.py").write_text(find_exercises(["3"])[0].solved(0))
    functions = next(assemble(folder, PLAN)).more["functions"]
    assert [each.name for each in functions if each.exercise] == ["linear"]
    assert {each.words for each in functions if not each.exercise} == {
        "this assignment has no such exercise"}


def test_what_was_right_is_graded_again_only_if_its_file_changes(tmp_path, monkeypatch):
    graded, told = [], []

    def grade(folder, seconds, names):
        graded.append(list(names))
        return [{"name": name, "points": int(name[:2] in ("01", "03")), "of": 1,
                 "feedback": "right" if name[:2] in ("01", "03") else "not done yet"}
                for name in names]

    monkeypatch.setattr(milestones, "grade", grade)
    folder = solved(tmp_path, ["1", "3"])
    first, again = next(assemble(folder, PLAN)), next(assemble(folder, PLAN, told.append))
    assert [each.whose for each in first.more["functions"]] == [
        each.whose for each in again.more["functions"]]
    assert len(graded[0]) == 18 and set(graded[0]) - set(graded[1]) == {"01_softmax", "03_linear"}
    assert told == ["2 files are unchanged since they were right; grading the other 16"]
    with (folder / "01_softmax.py").open("a") as file:
        file.write("# another line\n")
    next(assemble(folder, PLAN))
    assert "01_softmax" in graded[2] and "03_linear" not in graded[2]
    write_assignment(tmp_path / "other", 5, ALL)      # the same file, other problems
    (tmp_path / "other" / "student" / "progress.json").write_text(
        (folder / "progress.json").read_text())
    (tmp_path / "other" / "student" / "03_linear.py").write_text(
        (folder / "03_linear.py").read_text())
    next(assemble(tmp_path / "other" / "student", PLAN))
    assert "03_linear" in graded[3]


WITHOUT_IGNORED = """import numpy as np


def cross_entropy(logits, targets):
    z = logits - logits.max(axis=-1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    return -np.take_along_axis(log_p, targets[..., None], axis=-1).mean()
"""


def test_a_function_that_is_wrong_only_where_the_model_never_comes_is_used(tmp_path):
    write_assignment(tmp_path, 0, ["7"])
    folder = tmp_path / "student"
    for source, whose in ((WITHOUT_IGNORED, "yours"),
                          (WITHOUT_IGNORED.replace("logits - logits.max(axis=-1, keepdims=True)",
                                                   "logits"), "wrong")):
        (folder / "07_cross_entropy.py").write_text(source)
        found, = [each for each in next(assemble(folder, PLAN)).more["functions"] if each.exercise]
        assert found.whose == whose, found
        assert found.words.startswith("wrong only for an ignored target") == (whose == "yours")
    assert not (folder / "progress.json").exists() or "07" not in (
        folder / "progress.json").read_text()


@pytest.mark.slow
def test_a_training_says_how_long_it_takes(tmp_path, graded_by_name):
    told = []
    list(assemble(solved(tmp_path, ["3"]), replace(PLAN, steps=8), told.append))
    own = [words for words in told if words.startswith("yours: step")]
    assert re.fullmatch(r"yours: step 5 of 8, loss \d\.\d+; about \d+ (s|minutes) left for yours "
                        "and ours", own[0])
    assert own[1].startswith("yours: step 8 of 8") and "left" not in told[-1]


def test_without_a_function_of_ones_own_there_is_nothing_to_assemble(tmp_path, graded_by_name):
    found = list(assemble(solved(tmp_path, []), PLAN))
    assert reached(found) == [(NAMES[0], False)] and "Nothing to assemble yet" in found[0].words


WRONG = ("import numpy as np\n\n\ndef softmax(x):\n    e = np.exp(x - x.max(-1, keepdims=True))\n"
         "    return e / e.mean(-1, keepdims=True)\n")


@pytest.mark.slow
def test_a_wrong_function_stops_it_with_its_cause_unless_ours_is_asked_for(tmp_path):
    folder = solved(tmp_path, [])
    (folder / "01_softmax.py").write_text(WRONG)
    (folder / "03_linear.py").write_text(find_exercises(["3"])[0].solved(0))
    found = list(assemble(folder, PLAN))
    assert reached(found) == [(NAMES[0], False)] and "--replace-wrong" in found[0].words
    wrong, = [each for each in found[0].more["functions"] if each.whose == "wrong"]
    assert wrong.name == "softmax" and "Likely cause: the same numbers come out with `mean`" in (
        wrong.words)

    found = list(assemble(folder, replace(PLAN, replace_wrong=True)))
    assert reached(found) == [(name, True) for name in NAMES]


def with_lines(folder, number, lines):
    """The solution of an exercise whose function begins with further lines."""
    exercise, = find_exercises([number])
    source = re.sub(r'(def .*\n    """(?:.|\n)*?"""\n)', rf"\1{lines}", exercise.solved(0))
    assert lines in source
    (folder / f"{exercise.name}.py").write_text(source)


@pytest.mark.parametrize("number, lines, words", [
    ("3", "    while True:\n        pass\n", "linear: it ran for more than 0.5 s and was stopped"),
    ("10", "    raise OSError('no disk')\n", "layer_norm_backward: OSError: no disk"),
    ("1", "    return x[..., 0]\n", "the model: "),
    ("9", "    raise SystemExit\n", "layer_norm: SystemExit"),
])
def test_a_function_that_fails_in_the_model_is_named(tmp_path, graded_by_name, number, lines,
                                                     words):
    folder = solved(tmp_path, [])
    with_lines(folder, number, lines)
    *_, last = assemble(folder, replace(PLAN, seconds=0.5))
    assert not last.reached and last.name == "together" and last.words.startswith(words)
    assert words.startswith("the model") or "(line " in last.words


def test_a_function_that_ends_python_ends_the_track(tmp_path, graded_by_name):
    folder = solved(tmp_path, [])
    with_lines(folder, "3", "    import os\n    os._exit(3)\n")
    *_, last = assemble(folder, PLAN)
    assert last.words == "it ended Python (exit status 3); it must return"


@pytest.mark.parametrize("lines", ["    return x @ weight\n", "    return np.nan * x @ weight\n"])
def test_functions_that_are_wrong_in_the_model_alone_are_named(tmp_path, graded_by_name, lines):
    folder = solved(tmp_path, ["9"])
    with_lines(folder, "3", "    import numpy as np\n" + lines)
    *_, last = assemble(folder, PLAN)
    assert last.name == "together" and not last.reached
    assert last.words.endswith("the reference with linear alone differs, too")


@pytest.mark.slow
def test_what_a_function_prints_is_not_seen(tmp_path, graded_by_name, capfd):
    folder = solved(tmp_path, [])
    with_lines(folder, "3", "    print('here')\n")
    assert [each.reached for each in assemble(folder, PLAN)] == [True] * 5
    assert capfd.readouterr() == ("", "")


def test_a_loss_that_is_no_number_ends_a_training(tmp_path, graded_by_name):
    folder = solved(tmp_path, [])
    with_lines(folder, "3", "    if x.shape[0] == 10:\n        return x @ weight + float('nan')\n")
    *_, last = assemble(folder, PLAN)
    assert (last.name, last.words) == (NAMES[3], "the loss is not a finite number")


@pytest.mark.parametrize("changes, words", [
    ({"text": "abc" * 40}, "the text has 120 characters; give one of at least 180"),
    ({"steps": 0}, "steps"), ({"seed": -1}, "seed"), ({"seconds": 0.0}, "seconds"),
    ({"sizes": {"WIDTH": 10}}, "a width of 10 is not divisible by 4, the number of heads; use 8"),
    ({"sizes": {"LAYERS": 0}}, "LAYERS"),
])
def test_a_plan_that_cannot_be_carried_out_is_refused(tmp_path, changes, words):
    with pytest.raises(ValueError, match=words):
        next(assemble(tmp_path, replace(PLAN, **changes)))


def test_a_folder_that_is_none_is_refused(tmp_path):
    with pytest.raises(ValueError, match="give a folder that `numformer exercises` made"):
        next(assemble(tmp_path, PLAN))


def test_the_least_loss_of_sentences_that_begin_alike():
    apart = np.array([[1, 5, 5], [2, 5, 5], [1, 5, 6], [1, 5, 5]])
    # three begin with 1: two that are equal, and one
    assert np.isclose(_least_loss(apart), (2 * np.log(3 / 2) + np.log(3)) / 4 / 2)


@pytest.mark.slow
def test_the_whole_track_with_the_grader(tmp_path):
    found = list(assemble(solved(tmp_path, ALL), PLAN))
    assert reached(found) == [(name, True) for name in NAMES]
