"""`numformer grade CLASS/*` grades the folders of students, and not that of their teacher."""

import shutil

import pytest

from command import call, last_json
from numformer.teaching import write_assignment


@pytest.fixture
def folder(tmp_path):
    """Folders student, second and teacher, with one exercise."""
    write_assignment(tmp_path / "class", seed=3, names=["3"])
    shutil.copytree(tmp_path / "class" / "student", tmp_path / "class" / "second")
    return tmp_path / "class"


def test_the_teachers_folder_of_a_class_is_left_out(capsys, folder, tmp_path):
    folders = sorted(folder.iterdir())
    status, out, err = call(capsys, "grade", *folders, "--json", "--csv", tmp_path / "scores.csv")
    assert status == 0 and [path.name for path in folders] == ["second", "student", "teacher"]
    assert [student["name"] for student in last_json(out)["students"]] == ["second", "student"]
    assert "teacher is left out: it has a GUIDE.md" in err and err.count("\n") == 1
    assert "teacher" not in (tmp_path / "scores.csv").read_text(encoding="utf-8")


def test_the_teachers_folder_alone_is_graded(capsys, folder):
    status, out, err = call(capsys, "grade", folder / "teacher")
    assert (status, err) == (0, "") and "1 of 1 points" in out


def test_one_student_and_the_teacher_are_one_student(capsys, folder):
    status, out, err = call(capsys, "grade", folder / "student", folder / "teacher")
    assert status == 0 and "not done yet" in out and "left out" in err
