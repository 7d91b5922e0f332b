"""Hints: three for each function and exercise, one at a time, remembered, and then a solution."""

import json
import math
import os

import numpy as np
import pytest

from marks import every
import numformer
from command import call, last_json
from numformer.specifications import PROBLEMS, hints_of
from numformer.teaching import all_exercises, check, hint, solution, write_assignment
from numformer.teaching.exercise import find_exercise
from numformer.teaching.support import hints, names
from numformer.teaching.support import solution as solutions
from numformer.teaching.support.record import MANY, RECORD, read_record


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setattr(hints, "_given", {})
    monkeypatch.setattr(names, "_names", {})
    monkeypatch.setattr(solutions, "_passed", set())


@pytest.mark.parametrize("exercise", all_exercises(), ids=lambda exercise: exercise.name)
def test_every_exercise_has_three_hints(exercise):
    for seed in range(4):
        found = exercise.hints(seed)
        assert len(found) == 3 and len(set(found)) == 3
        assert all(len(text) > 10 and "  " not in text and "#" not in text and "{bug}" not in text
                   for text in found), found


def test_each_call_gives_the_next_hint():
    found = [hint("layer_norm_backward") for _ in range(4)]
    texts = hints_of("layer_norm_backward")
    for level, text in zip((1, 2, 3, 3), found):
        assert text == f"layer_norm_backward, hint {level} of 3: {texts[level - 1]}"
    assert numformer.hint is hint and hint("2", level=2).endswith(find_exercise(2).hints(0)[1])
    assert "02_softmax_backward, hint 3 of 3" in hint(2) and "hint 3 of 3" in hint("25", level=3)
    assert max(map(len, repr(found[0]).splitlines())) <= 80
    assert "<div" in found[0]._repr_html_()


def test_a_printed_hint_is_wrapped(capsys):
    for level in (1, 2, 3):
        print(hint("layer_norm_backward", level=level))
        assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
        assert f"{hint('layer_norm_backward', level=level)!r}" == str(
            hint("layer_norm_backward", level=level))


@pytest.mark.parametrize("name", every(3, PROBLEMS))
def test_every_function_of_check_has_hints_and_a_solution(name):
    for each in (name, f"{name}_backward"):
        assert hints.has_hints(each) and hint(each) == (
            f"{each}, hint 1 of 3: {hints_of(each)[0]}")
        with pytest.raises(ValueError, match=f"no check of {each} has passed"):
            solution(each)
        solutions.record_pass(each)
        assert f"def {each}(" in solution(each)


@pytest.mark.parametrize("name, first, inside", [
    ("softmax_backward", "def softmax_backward(dp, x):", "(p * dp).sum("),      # of an exercise
    ("relu_squared_backward", "def relu_squared_backward(dy, x):", "dy * 2"),    # of a variant
    ("repeat_kv_heads_backward", "def repeat_kv_heads_backward(dy, x, n_heads):", ".sum(axis=2)"),
    ("softmax_cross_entropy", "def softmax_cross_entropy(logits, targets):", "for v in range("),
    ("attention", "def attention(q, k, v, mask=None):", "np.where(total == 0, 1, total)"),
    ("batch_norm_backward", "def batch_norm_backward(dy, x, weight, bias, epsilon=1e-5):",
     "x.reshape(-1, C)"),
    ("low_rank_attention_backward", "def low_rank_attention_backward(do, saved):", "saved")])
def test_a_solution_has_the_signature_of_its_task(name, first, inside):
    """What a student has written can be compared with it, and it runs in the student's cell."""
    solutions.record_pass(name)
    text = str(solution(name))
    assert text.splitlines()[0] == first and inside in text, text
    assert "SOLUTION" not in text
    if "saved" not in first:
        cell = {"np": np, "math": math}
        exec(text, cell)
        assert check(name, cell[name], seed=1)


@pytest.mark.parametrize("function", ["silu", "gelu_tanh", "relu_squared_backward"])
def test_an_exercise_of_a_function_has_its_hints(function):
    name = "06_activation_backward" if "backward" in function else "05_activation"
    exercise = find_exercise(name)
    seed = next(seed for seed in range(40) if exercise.function(seed) == function)
    assert exercise.hints(seed) == hints_of(function) and not exercise.has_own_hints
    assert hint(function).endswith(exercise.hints(seed)[0])
    assert " ".join(hints_of(function)[2].split()) in " ".join(
        exercise.teacher(seed).replace("\n#", "\n").split())
    assert hint(name, seed=seed) == f"{name}, hint 2 of 3: {hints_of(function)[1]}"


def test_hints_are_told_in_one_place():
    """A bug, a figure and a function without a specification have hints of their own."""
    for exercise in all_exercises():
        assert exercise.has_own_hints == (
            exercise.kind != "check" or exercise.bug(0) is not None), exercise.name


@pytest.mark.parametrize("name, level, seed, error, words", [
    ("nothing", None, 0, ValueError, "no exercise 'nothing'"), (99, None, 0, ValueError, "'99'"),
    ("norm", None, 0, ValueError, "may be 09_layer_norm"), ("softmx", None, 0, ValueError, "mean"),
    ("genral_scores", None, 0, ValueError, "mean general_scores"),
    (10, 4, 0, ValueError, "level=4 must be 1, 2 or 3"), (10, 0, 0, ValueError, "level=0"),
    (10, None, -1, ValueError, "seed=-1"), (None, None, 0, TypeError, "but is NoneType"),
    (["1"], None, 0, TypeError, "but is list")])
def test_wrong_requests_are_one_line(name, level, seed, error, words):
    with pytest.raises(error, match=words) as caught:
        hint(name, level, seed)
    assert "\n" not in str(caught.value) and hints._given == {}


def test_the_folder_remembers_hints(tmp_path, capsys):
    write_assignment(tmp_path, seed=1, names=["10", "25"])
    folder = tmp_path / "student"
    for level in (1, 2, 3, 3):
        status, out, _ = call(capsys, "hint", "10", folder, "--json")
        assert status == 0 and last_json(out)["level"] == level
        assert all(len(line) <= 80 for line in out.splitlines()[:-1])
    call(capsys, "hint", "softmax", folder, "--level", 2)
    assert read_record(folder)["hints"] == {"10_layer_norm_backward": 3,
                                            "25_bug_in_softmax_backward": 2}
    _, out, _ = call(capsys, "hint", "25", folder)
    assert find_exercise(25).bug(1) in " ".join(out.split())
    status, _, err = call(capsys, "hint", "3", folder)
    assert status == 2 and "choose from 10_layer_norm_backward, 25" in err


@pytest.mark.parametrize("text", [
    "", "[]", "3", "[" * 50_000, '{"hints": 3}', '{"hints": {"01_softmax": "2"}}', b"\xff",
    '{"hints": {"01_softmax": -1}, "attempts": {"01_softmax": true}, "graded": [1]}',
    '{"hints": {"../../x": 2}}', json.dumps({"attempts": {"01_softmax": MANY}}), "x" * 10 ** 6])
def test_a_record_of_another_form_is_empty(tmp_path, capsys, text):
    write_assignment(tmp_path, names=["1"])
    path = tmp_path / "student" / RECORD
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert read_record(path.parent) == {
        "hints": {}, "attempts": {}, "graded": {}, "right": {}}
    assert call(capsys, "grade", path.parent)[0] == 0


def test_a_solution_is_shown_after_a_pass(tmp_path, capsys):
    with pytest.raises(ValueError, match="no check of linear has passed"):
        solution("linear")
    assert not check("linear", lambda x, weight, bias: x @ weight, 0)
    with pytest.raises(ValueError, match="no check of linear has passed"):
        solution("linear")
    assert check("linear", lambda x, weight, bias: x @ weight + bias, 0)
    assert repr(solution("linear")).startswith("def linear(x, weight, bias):")
    with pytest.raises(ValueError, match="'linaer' is not a function"):
        solution("linaer")
    write_assignment(tmp_path, names=["3"])
    status, out, err = call(capsys, "solution", "3", tmp_path / "student")
    assert status == 1 and out == "" and len(err.splitlines()) == 1
    assert "03_linear has 0 of 1 points; the solution is shown when it has all" in err
    status, out, _ = call(capsys, "solution", "3", tmp_path / "teacher", "--json")
    assert status == 0 and last_json(out)["solution"] == "return x @ weight + bias\n"
    assert out.startswith("03_linear, in linear:\n\nreturn x @ weight + bias\n")


@pytest.mark.parametrize("text", ["{", "[]", "[" * 50_000])
def test_a_record_that_cannot_be_read_is_kept_aside(tmp_path, capsys, text):
    write_assignment(tmp_path, names=["1"])
    folder = tmp_path / "student"
    for number in ("", "1"):
        (folder / RECORD).write_text(text)
        status, _, err = call(capsys, "hint", "1", folder)
        aside = f"progress-unreadable{number}.json"
        assert status == 0 and (folder / aside).read_text() == text
        assert err == (f"numformer: {folder / RECORD} cannot be read and is kept as {aside}; "
                       "attempts and hints are counted anew\n")
        assert read_record(folder)["hints"]
    assert not call(capsys, "hint", "1", folder)[2], "what can be read is no message"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_record_that_is_a_pipe_is_kept_aside(tmp_path, capsys):
    write_assignment(tmp_path, names=["1"])
    os.mkfifo(tmp_path / "student" / RECORD)
    assert "is kept as" in call(capsys, "hint", "1", tmp_path / "student")[2]
    assert (tmp_path / "student" / RECORD).is_file()
