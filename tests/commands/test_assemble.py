"""`numformer assemble` says what a student has reached, and what to do next."""

import pytest

from command import TEXT, call, last_json
from numformer.teaching import write_assignment
from numformer.teaching.exercise import find_exercises


@pytest.fixture
def folder(tmp_path):
    """An assignment of two exercises, of which one is solved."""
    write_assignment(tmp_path, names=["1", "3"])
    exercise, = find_exercises(["3"])
    (tmp_path / "student" / "03_linear.py").write_text(exercise.solved(0))
    (tmp_path / "text.txt").write_text(TEXT)
    return tmp_path / "student"


def assembled(capsys, folder, *more):
    return call(capsys, "assemble", folder, "--data", folder.parent / "text.txt", "--steps", 2,
                "--n-layers", 1, "--d-model", 16, "--context-length", 8, *more)


@pytest.mark.slow
def test_the_milestones_are_told_one_after_the_other(capsys, folder):
    status, out, err = assembled(capsys, folder, "--json")
    assert status == 0 and "ours: step 2 of 2, loss " in err
    lines = out.splitlines()
    assert "    \u2713 linear: yours (03_linear)" in lines
    assert "    \u00b7 softmax: ours (01_softmax): not written yet" in lines
    signed = [line for line in lines if line[:1] in ("\u2713", "\u2717")]
    assert [line.split()[:2] for line in signed] == [
        ["\u2713", word] for word in ("your", "together", "first", "ten", "trained")]
    found = last_json(out)["milestones"]
    assert [each["reached"] for each in found] == [True] * 5
    linear, = [each for each in found[0]["functions"] if each["name"] == "linear"]
    assert (linear["exercise"], linear["whose"], linear["called"]) == ("03_linear", "yours", True)
    assert abs(found[4]["loss"] - found[4]["reference_loss"]) < 0.01
    assert len(found[4]["text"]) == 400


@pytest.mark.slow
def test_what_is_unchanged_is_in_one_line(capsys, folder):
    assembled(capsys, folder)
    status, out, _ = assembled(capsys, folder)
    assert status == 0 and "linear: yours (03_linear)" not in out
    assert "    \u2713 yours, and not graded again, as the files are unchanged: linear\n" in out
    assert "    \u00b7 softmax: ours (01_softmax): not written yet" in out


@pytest.mark.slow
def test_a_wrong_function_is_named_with_its_cause(capsys, folder):
    (folder / "01_softmax.py").write_text(
        "import numpy as np\n\n\ndef softmax(x):\n    e = np.exp(x - x.max(0))\n"
        "    return e / e.sum(0)\n")
    status, out, _ = assembled(capsys, folder)
    assert status == 1 and "    \u2717 softmax: wrong (01_softmax): " in out
    assert "\u2717 your functions, not reached (" in out and "together" not in out
    assert "Likely cause" in out and "--replace-wrong" in out


@pytest.mark.parametrize("words, message", [
    (["--data", "no-such-file"], "no-such-file cannot be read"),
    (["--d-model", "10"], "a width of 10 is not divisible by 4"),
    (["--steps", "0"], "steps"),
    (["--context-length", "1000"], "the text has 4080 characters; give one of at least 20020"),
])
def test_a_mistake_on_the_command_line_is_one_line(capsys, folder, words, message):
    status, out, err = assembled(capsys, folder, *words)
    assert (status, out) == (2, "") and message in err and err.count("\n") == 1


def test_a_folder_without_an_assignment_is_refused(capsys, folder):
    status, out, err = call(capsys, "assemble", folder.parent)
    assert (status, out) == (2, "") and "give a folder that `numformer exercises` made" in err
