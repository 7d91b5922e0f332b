"""`grade`: one exercise, a folder, a class; the page of progress, and what the folder records."""

import csv
import io
import json
import re
from html.parser import HTMLParser

import pytest

from command import call, last_json
from numformer.teaching import write_assignment
from numformer.teaching.support.progress import (
    Graded, class_page, next_step, shown_parts, student_page)
from numformer.teaching.support.record import RECORD, read_record
from numformer.teaching.support.scores import scores

HALF = "import numpy as np\n\n\ndef softmax(x):\n    return np.ones(x.shape)\n"


@pytest.fixture
def student(tmp_path):
    write_assignment(tmp_path, seed=1, names=["1", "2", "3"])
    (tmp_path / "student" / "03_linear.py").write_text(
        "def linear(x, weight, bias):\n    return x @ weight + bias\n")
    (tmp_path / "student" / "01_softmax.py").write_text(HALF)
    return tmp_path / "student"


class Page(HTMLParser):
    """The words and tags of a page; every tag is closed."""

    def __init__(self, page):
        super().__init__()
        self.words, self.open, self.links = [], [], []
        self.feed(page)
        assert self.open == [], self.open

    def handle_starttag(self, tag, attributes):
        self.links += [value for name, value in attributes if name in ("src", "href")]
        if tag not in ("meta", "link", "br", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data.split()


@pytest.mark.slow
def test_one_exercise_is_graded_by_number_or_name(student, capsys, monkeypatch):
    monkeypatch.chdir(student)
    for words in (("3",), ("03_linear", "."), ("linear", student)):
        status, out, _ = call(capsys, "grade", *words, "--json")
        assert status == 0 and [row["name"] for row in last_json(out)["exercises"]] == ["03_linear"]
        assert "1 of 1 points" in out
    status, out, _ = call(capsys, "grade", "--json")
    result = last_json(out)
    assert [row["points"] for row in result["exercises"]] == [0.2, 0, 1]
    assert result["next"] == "01_softmax" and "Next: 01_softmax (easy, about 10 minutes)" in out
    assert "Points by part" not in out                # one part only: the points say it
    status, _, err = call(capsys, "grade", "10")
    assert status == 2 and "no exercise 10_layer_norm_backward; it has 01_softmax" in err
    (student / "linear").mkdir()
    status, _, err = call(capsys, "grade", "linear")
    assert status == 2 and "write ./linear for the folder" in err and len(err.splitlines()) == 1


@pytest.mark.slow
def test_json_keeps_all_digits_and_the_text_four(student, capsys):
    (student / "01_softmax.py").write_text(HALF.replace("np.ones(x.shape)", "x"))
    _, out, _ = call(capsys, "grade", "1", student, "--json")
    full = re.search(r"found (\S+), reference", last_json(out)["exercises"][0]["feedback"])[1]
    short = re.search(r"found (\S+),", " ".join(" ".join(out.splitlines()[:-1]).split()))[1]
    assert len(full) > 8 and short == f"{float(full):.4g}"


@pytest.mark.slow
def test_attempts_are_gradings_of_a_changed_file(student, capsys):
    for text, attempts in ((HALF, 1), (HALF, 1), (HALF + "# again\n", 2)):
        (student / "01_softmax.py").write_text(text)
        _, out, _ = call(capsys, "grade", student, "--json")
        assert last_json(out)["exercises"][0]["attempts"] == attempts
    assert read_record(student)["attempts"] == {"01_softmax": 2, "03_linear": 1}
    assert json.loads((student / RECORD).read_text())["hints"] == {}


@pytest.mark.slow
def test_the_page_of_a_student(student, capsys, tmp_path):
    call(capsys, "hint", "1", student)
    status, out, _ = call(capsys, "grade", student, "--html", tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    text = " ".join(Page(page).words)
    assert status == 0 and "open it in a browser" in out
    assert "1.2 of 6 points; 1 of 3 exercises are done." in text
    assert "Next: 01_softmax" in text and "Softmax: scores become weights" in text
    for words in ("\u2713 done 1 of 1 1", "\u25d0 partly right 0.2 of 2 1 1 of 3",
                  "\u2013 not begun 0 of 3"):
        assert words in text, text
    assert "prefers-color-scheme: dark" in page and "<script" not in page
    assert Page(page).links == ["data:,"]


@pytest.mark.slow
def test_a_class_is_one_table(student, capsys, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / "teacher" / "GUIDE.md").unlink()      # else it is no student's, and left out
    before = sorted(path.name for path in student.iterdir())
    status, out, _ = call(capsys, "grade", student, tmp_path / "teacher", empty, "--json", "--html",
                          tmp_path / "class.html", "--csv", tmp_path / "class.csv")
    found = {graded["name"]: graded for graded in last_json(out)["students"]}
    assert status == 1 and "there is no" in found["empty"]["trouble"]
    assert found["student"]["points"] == 1.2 and found["teacher"]["points"] == 6
    assert sorted(path.name for path in student.iterdir()) == before  # nothing is written there
    text = " ".join(Page((tmp_path / "class.html").read_text(encoding="utf-8")).words)
    assert "3 folders." in text and "student 1.2 of 6 1 of 3" in text
    assert "teacher 6 of 6 3 of 3 0 2 \u2713 3 \u2713 1 \u2713" in text
    assert "done by 1 1 2" in text and "all done" in out
    with open(tmp_path / "class.csv", encoding="utf-8", newline="") as file:
        rows = {row.pop("student"): row for row in csv.DictReader(file)}
    assert list(rows) == ["student", "teacher", "empty"]
    assert list(rows["student"].values()) == ["1.2", "6", "0.2", "0", "1", ""]
    *points, trouble = rows["empty"].values()
    assert points == [""] * 5 and "there is no" in trouble


def test_folders_of_the_same_name_are_told_apart(tmp_path, capsys):
    for who in "ab":
        write_assignment(tmp_path / who, names=["3"])
    folders = [tmp_path / who / "student" for who in "ab"]
    _, out, _ = call(capsys, "grade", *folders, "--json")
    assert [graded["name"] for graded in last_json(out)["students"]] == list(map(str, folders))


def test_texts_of_others_are_escaped():
    row = {"name": "01_softmax", "points": 0, "of": 2, "feedback": "<script>1</script>",
           "parts": {"<b>": (0, 1)}, "hints": 0, "attempts": 3}
    for page in (student_page(Graded("<i>", [row])), class_page([Graded("<i>", [row]),
                                                                Graded("x", [], None, "<u>")])):
        assert not set(re.findall("<(script|i|b|u)>", page)) and "&lt;i&gt;" in page


def test_no_name_is_a_formula_in_a_spreadsheet():
    names = ['=HYPERLINK("x")', "+1", "-1", "@a", 'a "b", c', "\u00e4\nb"]
    table = scores([Graded(name, []) for name in names])
    assert [row[0] for row in csv.reader(io.StringIO(table, newline=""))][1:] == [
        *(f"'{name}" for name in names[:4]), *names[4:]]


def test_what_is_next_has_its_requirements_done():
    def row(name, points):
        return {"name": name, "points": points, "of": 2, "feedback": ""}

    left = [row("02_softmax_backward", 0), row("01_softmax", 0), row("03_linear", 2)]
    assert Graded("a", left).next.name == "01_softmax"
    assert Graded("a", left[:1]).next.name == "02_softmax_backward"
    assert next_step(Graded("a", left[2:])) == "`numformer solution 03` shows our solution."
    assert next_step(Graded("a", left[2:] * 2)) == "All of these exercises are done."


@pytest.mark.parametrize("points, parts, shown", [
    (4, {"dq": (3.0, 4.0), "dk": (1.0, 6.0)}, "Points by part: dq 3 of 4, dk 1 of 6."),
    (4, {"y": (4.0, 10.0)}, ""),                      # the points say it
    (10, {"dq": (4.0, 4.0), "dk": (6.0, 6.0)}, ""), (0, {"dq": (0, 4.0), "dk": (0, 6.0)}, ""),
    (4, None, "")])
def test_points_by_part_are_shown_where_there_are_several(points, parts, shown):
    assert shown_parts({"points": points, "of": 10, "parts": parts}) == shown
