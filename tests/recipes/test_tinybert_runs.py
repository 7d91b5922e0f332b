"""TinyBERT from the command line: the run of a classifier is its teacher."""

import shutil

import pytest

from command import call, content
from marks import every
from numformer.runs import load_run
from tiny_presets import tiny_flags


@pytest.fixture(scope="module")
def teacher(tmp_path_factory, few_examples):
    from numformer.cli import main

    out = tmp_path_factory.mktemp("teacher") / "r"
    assert main(["train", *tiny_flags("few-topics"), "--out", str(out), "--d-model", "12"]) == 0
    return out


def train(capsys, out, *flags):
    return call(capsys, "train", *tiny_flags("tinybert"), "--out", out, *flags)


@pytest.mark.slow
def test_a_student_learns_from_a_teacher_and_resumes_to_the_byte(teacher, capsys, tmp_path):
    one, other = tmp_path / "one" / "r", tmp_path / "other" / "r"
    assert train(capsys, one, "--from", teacher)[0] == 0
    assert train(capsys, other, "--from", teacher, "--stop-at", "3")[0] == 0
    assert call(capsys, "train", "--resume", "--out", other)[0] == 0
    assert content(one) == content(other)
    alone = tmp_path / "alone" / "r"
    assert train(capsys, alone)[0] == 0
    assert load_run(one)[0].config.teacher_width == 12
    assert load_run(alone)[0].config.teacher_width is None
    status, said, _ = call(capsys, "eval", one)
    assert status == 0 and "accuracy" in said


@pytest.mark.slow
def test_a_run_says_that_its_teacher_is_missing_or_another(teacher, capsys, tmp_path):
    moved, out = tmp_path / "teacher", tmp_path / "student" / "r"
    shutil.copytree(teacher, moved)
    assert train(capsys, out, "--from", moved, "--stop-at", "2")[0] == 0
    kept = moved.rename(tmp_path / "kept")
    status, _, err = call(capsys, "train", "--resume", "--out", out)
    assert status == 2 and "the teacher of this run is missing" in err
    assert call(capsys, "train", *tiny_flags("few-topics"), "--out", moved, "--d-model", "12",
                "--seed", "5")[0] == 0
    status, _, err = call(capsys, "train", "--resume", "--out", out)
    assert status == 2 and "has other weights than when the run began" in err
    shutil.rmtree(moved)
    kept.rename(moved)
    assert call(capsys, "train", "--resume", "--out", out)[0] == 0


@pytest.mark.parametrize("flags, words", every(2, [
    (["--n-layers", "2"], "n_layers=2 must be at most that of the teacher, 1"),
    (["--n-heads", "1"], "n_heads=1 must be that of the teacher, 2")]))
def test_a_student_that_does_not_fit_its_teacher_is_refused(flags, words, teacher, capsys,
                                                            tmp_path):
    status, _, err = train(capsys, tmp_path / "r", "--from", teacher, *flags)
    assert status == 2 and words in err


def test_only_a_classifier_of_topics_is_a_teacher(teacher, capsys, tmp_path):
    student = tmp_path / "s" / "r"
    assert train(capsys, student, "--stop-at", "2")[0] == 0
    status, _, err = train(capsys, tmp_path / "r", "--from", student)
    assert status == 2 and "give a teacher trained on topics or few-topics" in err
