"""The folders of a variant: they are apart, and nothing is overwritten or left behind."""

import ast
import os
import re
from pathlib import Path

import pytest

from numformer.teaching.exercise import find_exercise
from numformer.teaching.variants import folders
from numformer.teaching.variants.folders import PROTECTS, write_variant
from numformer.teaching.variants.key import KEY, make_key

TEACHING = Path(__file__).parents[3] / "notebooks" / "TEACHING.md"


@pytest.fixture(scope="module")
def key():
    return make_key(["1", "2", "25", "31"], "term")


def test_what_students_and_teachers_get(tmp_path, key):
    written = write_variant(tmp_path / "class", tmp_path / "deep" / "key", key)
    students = sorted(os.listdir(tmp_path / "class"))
    assert students == [
        "01_softmax.py", "02_softmax_backward.md", "02_softmax_backward.py",
        "25_bug_in_softmax_backward.md", "25_bug_in_softmax_backward.py", "31_figure_mask.md",
        "31_figure_mask.py", "README.md", "assignment.json"]
    assert sorted(os.listdir(tmp_path / "deep" / "key")) == sorted(
        {*students, KEY, "GUIDE.md"} - {"README.md"})
    assert len(written) == 19 and all(path.is_file() for path in written)
    for name in students:
        if name.endswith(".py"):
            ast.parse((tmp_path / "class" / name).read_text())
    readme = (tmp_path / "class" / "README.md").read_text()
    assert "numformer hint 01" in readme and "10 points in all" in readme
    assert 'numformer.check("softmax", softmax)' in readme and "numformer grade" not in readme
    guide = (tmp_path / "deep" / "key" / "GUIDE.md").read_text()
    bug = find_exercise("25").bug(key.forms["25_bug_in_softmax_backward"])
    assert all(words in guide for words in (key.variant, "'term'", "2 points for the terms", bug))


def test_the_commands_of_a_readme_run(tmp_path, key):
    """A student types what the page says."""
    write_variant(tmp_path / "class", tmp_path / "key", key)
    readme = (tmp_path / "class" / "README.md").read_text()
    (file,) = re.findall(r"python -i (\S+)", readme)
    module = {}
    exec((tmp_path / "class" / file).read_text(), module)
    lines = re.findall(r">>> (.*)", readme)
    verdict = eval(lines[1], module, {"numformer": __import__("numformer")})
    assert lines[0] == "import numformer" and not verdict.written


@pytest.mark.parametrize("names, without", [
    (["31"], ["numformer.check"]), (["1"], ["## In words"]),
    (["37"], ["numformer.check", "In words"])])
def test_a_readme_speaks_of_what_is_there(tmp_path, names, without):
    write_variant(tmp_path / "class", tmp_path / "key", make_key(names))
    readme = (tmp_path / "class" / "README.md").read_text()
    assert not any(words in readme for words in without) and "You hand in this folder" in readme


def test_a_key_that_is_there_stays_and_its_students_folder_is_written_again(tmp_path, key):
    write_variant(tmp_path / "class", tmp_path / "key", key)
    before = {path.name: path.read_bytes() for path in (tmp_path / "key").iterdir()}
    write_variant(tmp_path / "again", tmp_path / "key", key)
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "key").iterdir()}
    for path in (tmp_path / "class").iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()


@pytest.mark.parametrize("taken", ["class", "key"])
def test_a_folder_that_holds_something_is_refused(tmp_path, key, taken):
    (tmp_path / taken).mkdir()
    (tmp_path / taken / "work.py").write_text("mine")
    with pytest.raises(ValueError, match=f"{taken} exists already, and is no empty folder"):
        write_variant(tmp_path / "class", tmp_path / "key", key)
    assert os.listdir(tmp_path) == [taken] and os.listdir(tmp_path / taken) == ["work.py"]
    (tmp_path / taken / "work.py").unlink()
    assert write_variant(tmp_path / "class", tmp_path / "key", key)   # it is empty now


@pytest.mark.parametrize("students, teachers", [
    ("class", "class"), ("class", "class/key"), ("key/class", "key"), ("a/../class", "class/key"),
    ("link/class", "real")])
def test_one_folder_in_the_other_is_refused(tmp_path, key, students, teachers):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(ValueError, match="must be apart: students would get the key"):
        write_variant(tmp_path / students, tmp_path / teachers, key)
    assert sorted(os.listdir(tmp_path)) == ["link", "real"] and not os.listdir(tmp_path / "real")


@pytest.mark.parametrize("failing", range(1, 19, 4))
def test_a_full_disk_leaves_nothing(tmp_path, key, monkeypatch, failing):
    (tmp_path / "empty").mkdir()
    count = iter(range(99))

    def opened(*arguments, **options):
        if next(count) == failing:
            raise OSError(28, "No space left on device")
        return open(*arguments, **options)
    monkeypatch.setattr(folders, "open", opened, raising=False)
    with pytest.raises(OSError, match="No space"):
        write_variant(tmp_path / "a" / "class", tmp_path / "empty", key)
    assert os.listdir(tmp_path) == ["empty"] and not os.listdir(tmp_path / "empty")


def test_where_no_folder_can_be_made_nothing_is_left(tmp_path, key):
    (tmp_path / "file").write_text("")
    for students, teachers in (("file/class", "key"), ("class", "file/key"), ("x" * 300, "key"),
                               ("a/b/" + "x" * 300, "key")):
        with pytest.raises(OSError):
            write_variant(tmp_path / students, tmp_path / teachers, key)
        assert os.listdir(tmp_path) == ["file"]


def test_the_page_for_teachers_says_the_same_of_what_a_variant_protects_against():
    assert " ".join(PROTECTS.split()) in " ".join(TEACHING.read_text(encoding="utf-8").split())
