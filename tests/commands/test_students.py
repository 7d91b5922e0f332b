"""`numformer exercises --students` and `grade --key`: from the sheet to the table of marks."""

import csv
import json
import os
import shutil

import pytest

from command import call, last_json
from numformer.teaching.exercise import find_exercise
from numformer.teaching.manifest import MANIFEST
from numformer.teaching.variants.key import KEY, read_key

NAMES = ("1", "2", "25", "31")
SALTED = ("--salt", "autumn, a7")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def variant(here, capsys):
    """A folder of students, `sheet`, and its key, `sheet-key`."""
    status, out, _ = call(capsys, "exercises", *NAMES, "--students", "sheet", *SALTED, "--json")
    assert status == 0 and len(last_json(out)["files"]) == 19
    assert "sheet-key is its key" in out
    return here


def solve(folder, *names):
    for name in names:
        shutil.copy(f"sheet-key/{find_exercise(name).name}.py", folder)


@pytest.mark.slow
def test_a_term_of_a_class(variant, capsys):
    os.mkdir("class")
    for student in ("ada", "bob", "eve"):
        shutil.copytree("sheet", f"class/{student}")
    solve("class/ada", *NAMES)
    page = variant / "class/ada/02_softmax_backward.md"
    page.write_text(page.read_text().replace("(your answer)", "as in the lecture"))
    text = (variant / "class/bob/02_softmax_backward.py").read_text()
    (variant / "class/bob/02_softmax_backward.py").write_text(text.replace(
        'raise NotImplementedError("your turn")', "return dp"))
    text = (variant / "class/bob/31_figure_mask.py").read_text()
    (variant / "class/bob/31_figure_mask.py").write_text(text.replace(
        'raise NotImplementedError("your turn")',
        'return {"allowed": 0, "first": T - 1 - BEFORE, "layers": 99}'))
    manifest = json.loads((variant / "class/eve" / MANIFEST).read_text())
    manifest["exercises"]["31_figure_mask"] = [0, 0, 5]
    (variant / "class/eve" / MANIFEST).write_text(json.dumps(manifest))
    status, out, _ = call(capsys, "grade", "--key", "sheet-key", "class/ada", "class/bob",
                          "class/eve", "--csv", "marks.csv", "--html", "marks.html")
    assert status == 1 and "class/eve: its manifest is not as it was written" in out
    ada, bob, eve = csv.DictReader((variant / "marks.csv").read_text().splitlines())
    words = [name for name in ada if "in words" in name]
    assert words == ["02_softmax_backward in words (of 4)",
                     "25_bug_in_softmax_backward in words (of 3)", "31_figure_mask in words (of 3)"]
    assert (ada["points"], ada["of"]) == ("10", "10") and [ada[name] for name in words] == [
        "", "0", "0"]                                 # to be filled in where there is something
    assert (bob["02_softmax_backward"], bob["31_figure_mask"]) == ("0.3", "0.67")
    assert eve["points"] == "" and "manifest" in eve["trouble"]
    assert "manifest is not as it was" in (variant / "marks.html").read_text()
    assert not list((variant / "class").rglob("progress.json"))


@pytest.mark.slow
def test_no_feedback_holds_the_seed(variant, capsys):
    solve("sheet", "1")
    text = (variant / "sheet/02_softmax_backward.py").read_text()
    (variant / "sheet/02_softmax_backward.py").write_text(text.replace(
        'raise NotImplementedError("your turn")', "return dp"))
    status, out, _ = call(capsys, "grade", "--key", "sheet-key", "sheet", "--json")
    assert status == 0 and "dx is wrong" in out and "not begun: dx is wrong" in out
    assert "seed" not in out and str(read_key("sheet-key").problems) not in out
    assert "In words: nothing yet, of 4 points." in out
    written = [row["written"] for row in last_json(out)["exercises"]]
    assert written == [None, *({"of": of, "lines": 0} for of in (4, 3, 3))]


def test_without_its_key_a_variant_is_not_graded(variant, capsys):
    for words in (("grade", "sheet"), ("solution", "2", "sheet"), ("assemble", "sheet")):
        status, out, err = call(capsys, *words)
        assert status == 2 and len(err.splitlines()) == 1 and out == ""
        assert "is of a variant, which is graded with the key that its teacher has" in err
    status, out, _ = call(capsys, "grade", "sheet", "sheet")
    assert status == 1 and out.count("numformer grade --key KEY") == 2


def test_hints_need_no_key(variant, capsys):
    exercise = find_exercise("25")
    bug = exercise.bug(read_key("sheet-key").forms[exercise.name])
    found = [call(capsys, "hint", "25", "sheet")[:2] for _ in range(3)]
    assert [status for status, _ in found] == [0, 0, 0] and "hint 1 of 3" in found[0][1]
    assert f"The cause: {bug}." in " ".join(found[2][1].split())


def test_the_same_sheet_again(variant, capsys):
    for key in ("sheet-key", f"sheet-key/{KEY}"):
        name = f"again-{key.count('/')}"
        assert call(capsys, "exercises", "--students", name, "--key", key, *SALTED)[0] == 0
        for path in (variant / "sheet").iterdir():
            assert path.read_bytes() == (variant / name / path.name).read_bytes()


def test_a_sheet_without_a_salt_is_that_of_a_seed(here, capsys):
    assert call(capsys, "exercises", "25", "31", "--students", "sheet", "--seed", "3")[0] == 0
    assert call(capsys, "exercises", "25", "31", "--out", "plain", "--seed", "3")[0] == 0
    for name in ("25_bug_in_softmax_backward.py", "31_figure_mask.py"):
        assert (here / "sheet" / name).read_bytes() == (here / "plain/student" / name).read_bytes()


@pytest.mark.slow
def test_last_terms_answers_are_wrong_in_a_sheet_unlike_it(variant, capsys):
    status, out, _ = call(capsys, "exercises", *NAMES, "--students", "next", "--salt", "spring",
                          "--unlike", "sheet-key")
    assert status == 0 and "right again" not in out
    last, this = read_key("sheet-key").forms, read_key("next-key").forms
    assert all(last[name][:2] != this[name][:2] for name in last if last[name])
    text = (variant / "next/31_figure_mask.py").read_text()
    module = {}
    exec((variant / "sheet-key/31_figure_mask.py").read_text(), module)
    (variant / "next/31_figure_mask.py").write_text(text.replace(
        'raise NotImplementedError("your turn")', f"return {module['answers']()}"))
    _, out, _ = call(capsys, "grade", "--key", "next-key", "31", "next")
    assert "wrong: " in out and "\n2 of 2 points" not in out


def damage(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def forge(name):
    """A folder whose manifest is of this text."""
    shutil.copytree("sheet", "forged")
    with open(f"forged/{MANIFEST}", "w") as file:
        file.write(name)


MANIFESTS = ["", "null", "[]", '{"variant": 5, "exercises": {}}', '{"variant": "a"}',
             '{"variant": "a", "exercises": ["1"]}', '{"variant": "a", "exercises": {"1": []}}',
             '{"variant": "a", "exercises": {"01_softmax": [0]}}',
             '{"variant": "a", "exercises": {"31_figure_mask": [0, 3]}}',
             '{"variant": "a", "exercises": {"31_figure_mask": "00"}}',
             '{"variant": "a", "exercises": {"31_figure_mask": [0, 1e0]}}',
             '{"variant": "a", "exercises": {"31_figure_mask": null}}',
             '{"variant": "a", "seed": 1, "exercises": {"01_softmax": []}}']


@pytest.mark.parametrize("text", MANIFESTS)
def test_a_forged_manifest_is_one_line(variant, capsys, text):
    forge(text)
    for words in (("grade", "--key", "sheet-key", "forged"), ("grade", "forged"),
                  ("hint", "31", "forged")):
        status, out, err = call(capsys, *words)
        assert (status, out, len(err.splitlines())) == (2, "", 1) and MANIFEST in err


def test_manifests_of_others_are_one_line(variant, capsys):
    call(capsys, "exercises", *NAMES, "--students", "other", *SALTED)
    mine, others = ((variant / name / MANIFEST).read_text() for name in ("sheet", "other"))
    name = read_key("sheet-key").variant
    for text, words in (
            (others, f"but the key is of {name}; give the key of that variant"),
            (mine.replace(name, "\\u001b[2J" * 50), "but the key is of"),
            (mine.replace('    "01_softmax": [],\n', ""), "manifest is not as it was written"),
            ('{"seed": 1, "exercises": ["1"]}', "is of no variant: its manifest has a seed")):
        forge(text)
        status, out, err = call(capsys, "grade", "--key", "sheet-key", "forged")
        assert (status, out, len(err.splitlines())) == (2, "", 1) and words in err
        assert err.strip().isprintable() and len(err) < 800
        shutil.rmtree("forged")
    os.remove(f"sheet/{MANIFEST}")
    status, _, err = call(capsys, "grade", "--key", "sheet-key", "sheet")
    assert status == 2 and "there is no sheet/assignment.json" in err and len(err.splitlines()) == 1


def test_a_damaged_key_is_one_line(variant, capsys):
    damage(variant / "sheet-key" / KEY, "autumn", "spring")
    for words in (("grade", "--key", "sheet-key", "sheet"),
                  ("exercises", "--students", "again", "--key", "sheet-key"),
                  ("exercises", "--students", "next", "--salt", "b", "--unlike", "sheet-key")):
        status, out, err = call(capsys, *words)
        assert (status, out, len(err.splitlines())) == (2, "", 1)
        assert f"sheet-key/{KEY} is damaged" in err
    assert sorted(os.listdir()) == ["sheet", "sheet-key"]


def test_a_missing_file_costs_its_points_alone(variant, capsys):
    os.remove("sheet/01_softmax.py")
    os.remove("sheet/02_softmax_backward.md")
    _, out, _ = call(capsys, "grade", "--key", "sheet-key", "1", "2", "sheet")
    assert "01_softmax.py does not exist" in " ".join(out.split())
    assert "In words: nothing yet, of 4 points." in out


@pytest.mark.parametrize("words, message", [
    (("--students", "sheet"), "sheet exists already, and is no empty folder"),
    (("--students", "new", "--key", "sheet"), "sheet exists already, and is no empty folder"),
    (("--students", "sheet-key/new", "--key", "sheet-key"), "must be apart"),
    (("--students", "new", "--key", "new/key"), "must be apart"),
    (("--students", "new", "--salt", ""), "--salt is empty"),
    (("--students", "new", "--salt", "a\nb"), "salt must be a line"),
    (("--students", "new", "--salt", "a", "--seed", "1"), "--seed chooses what --salt chooses"),
    (("--students", "new", "--unlike", "sheet-key"), "--unlike is of --salt"),
    (("--students", "new", "--salt", "a", "--unlike", "no"), "there is no key no"),
    (("--students", "new", "--out", "b"), "--out is not of --students"),
    (("--students", "new", "--notebook", "otter"), "--notebook is not of --students"),
    (("--salt", "a"), "--salt is of --students"), (("--key", "a"), "--key is of --students"),
    (("--students", "new", "--key", "sheet-key", "--salt", "b"), "it has another salt"),
    (("--students", "new", "--key", "sheet-key", "--seed", "1"), "--seed is of a new key"),
    (("3", "--students", "new", "--key", "sheet-key"), "it has other exercises"),
    (("99", "--students", "new"), "name='99' is unknown"),
    (("--students", "new", "--seed", "-1"), "--seed=-1")])
def test_bad_requests_are_one_line_and_leave_nothing(variant, capsys, words, message):
    status, out, err = call(capsys, "exercises", *words)
    assert (status, out, len(err.splitlines())) == (2, "", 1) and message in err
    assert sorted(os.listdir()) == ["sheet", "sheet-key"]


def test_the_help_says_what_a_variant_protects_against(capsys):
    status, out, _ = call(capsys, "exercises", "--help")
    assert status == 0 and "A variant does not protect against the rest." in " ".join(out.split())
