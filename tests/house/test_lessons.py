"""The form of a lesson: a question, minutes, key statements, checks, a summary, plain words."""

import ast
import json
import re
import sys
from pathlib import Path

import pytest

from numformer.specifications import find_problem
from numformer.teaching.check import offered_levels

ROOT = Path(__file__).parents[2] / "notebooks"
sys.path.insert(0, str(ROOT))
LESSONS = sorted(ROOT.glob("*.ipynb"))
WORDS = (1200, 1800)
FEWEST, MOST, SENTENCES = 2, 4, 3                     # questions to think about; of an answer
MINUTES, MOST_SECONDS = 90, 60
LEAST_MINUTES, FASTEST = 5, 50                        # of a section without its exercises; words a
#                                                       minute, formulas and code not counted
MOST_CODE = 30                                        # lines of a cell: what a slide can show
# Words that DESIGN's table replaces, as far as they can be searched for
AVOIDED = re.compile(r"""(?ix) \b (
    twins? | take[s]?\ over | step_to | thinned | silenced | carved? | ledger | wanders? | mended
    | in\ vain | worth | (?:model|code|layer|query|token|unit)s?\ (?:feels?|hears?|says?|speaks?)
    | is\ told | is\ asked | beside | order\ of\ chance | was\ drawn\ from\ chance
    | gradient(?:s)?\ (?:of\ [^.]{1,30}\ )?by\ (?:x|the\ (?:input|logits|vectors?)) ) \b""")


def cells_of(path):
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def texts(path, kind="markdown"):
    return ["".join(cell["source"]) for cell in cells_of(path) if cell["cell_type"] == kind]


def prose(path):
    """The text of a lesson without formulas, code, tables, answers and addresses."""
    return spoken("\n\n".join(texts(path)))


def spoken(text):
    for dropped in (r"<details>.*?</details>", r"```.*?```", r"\$\$.*?\$\$"):
        text = re.sub(dropped, " ", text, flags=re.DOTALL)
    text = re.sub(r"\$[^$]*\$|`[^`]*`|\]\([^)]*\)|^\|.*$", " ", text, flags=re.MULTILINE)
    return text


def sections(path):
    """(heading, text, minutes) of each section."""
    found = []
    for cell in cells_of(path):
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown" and text.startswith("## "):
            found.append([text.split("\n")[0], "", cell["metadata"].get("minutes")])
        if cell["cell_type"] == "markdown" and found:
            assert "\n## " not in text, "a section begins in a cell of its own"
            found[-1][1] += text + "\n\n"
    return found


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_has_its_form(path):
    about, found = texts(path)[0], sections(path)
    for part in ("**Question.**", "**You will learn**", "**You need**", "**Time.** 2 x 45 minutes"):
        assert part in about, part
    assert int(re.search(r"about (\d+)\s+seconds", about)[1]) <= MOST_SECONDS
    assert [heading for heading, _, _ in found[-2:]] == ["## Summary", "## Further reading"]
    minutes = {heading: given or 0 for heading, _, given in found}
    assert sum(minutes.values()) == MINUTES, minutes
    for heading, text, _ in found[:-2]:
        statements = re.findall(r"(?:^>.*\n?)+", text, re.MULTILINE)
        assert len(statements) == 1, (heading, statements)
    assert "$$" in "\n".join(texts(path))


EXERCISE = re.compile(r"\*\*Exercise (\d+)\.(\d+)\*\* \((\d+) minutes(, at home)?\)")


def too_short(sections):
    """Headings of sections whose minutes do not suffice for their exercises and their text."""
    for heading, text, minutes in sections:
        in_class = sum(int(found[3]) for found in EXERCISE.finditer(text) if not found[4])
        words = len(re.findall(r"[A-Za-z][A-Za-z'’-]*", spoken(text)))
        if minutes and minutes - in_class < max(LEAST_MINUTES, words / FASTEST):
            yield heading


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_the_minutes_of_a_section_include_its_exercises(path):
    assert not list(too_short(sections(path)))
    assert not any(EXERCISE.search(text) for _, text, minutes in sections(path) if not minutes)


@pytest.mark.parametrize("text, minutes, short", [
    ("**Exercise 1.1** (10 minutes). Derive it.", 10, True),
    ("**Exercise 1.1** (10 minutes). Derive it.", 15, False),
    ("**Exercise 1.1** (10 minutes, at home). Derive it.", 5, False),
    ("**Exercise 1.1** (5 minutes). **Exercise 1.2** (5 minutes).", 10, True),
    ("word " * 300, 5, True), ("word " * 300, 10, False), ("Further reading. " * 300, None, False)])
def test_minutes_that_do_not_suffice_are_found(text, minutes, short):
    assert list(too_short([("## A", text, minutes)])) == ["## A"] * short


def shapes_told(markdown, code):
    """Whether an exercise says that any number of axes may come before those it names.

    True, too, if its function is not tested with another number of axes.
    """
    call, = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)
             and getattr(node.func, "id", "") == "check"]
    levels = [word for option in call.keywords if option.arg == "levels"
              for word in ast.literal_eval(option.value)]
    _, problem, backward = find_problem(call.args[0].value)
    tested = AXES in offered_levels(problem, backward) and (not levels or AXES in levels)
    return not tested or bool(re.search(r"\bany (number of )?axes", markdown + code))


AXES = "another number of axes"


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_an_exercise_says_what_shapes_are_tested(path):
    cells = cells_of(path)
    for cell, after in zip(cells, cells[1:]):
        text, code = "".join(cell["source"]), "".join(after["source"])
        if EXERCISE.search(text):
            assert shapes_told(text[text.index("**Exercise"):], code), text


def test_a_shape_that_is_not_told_is_found():
    code = 'check("linear_backward", f, seed=0{})'
    assert not shapes_told("x: (B, T, C)", code.format(""))
    assert shapes_told("x: (..., C), any axes before the last", code.format(""))
    assert shapes_told("x: (B, T, C)", code.format(', levels=["plain"]'))
    assert not shapes_told("x: (B, T, C)", code.format(f', levels=["plain", "{AXES}"]'))
    assert shapes_told("q: (B, T, C)", 'check("general_scores_backward", f, seed=0)')


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_teaches_alone(path):
    count = len(re.findall(r"[A-Za-z][A-Za-z'’-]*", prose(path)))
    assert WORDS[0] <= count <= WORDS[1], count
    text, code = "\n".join(texts(path)), texts(path, "code")
    exercises = EXERCISE.findall(text)
    assert len(exercises) >= 2 and {int(lesson) for lesson, *_ in exercises} == {int(path.stem[:2])}
    assert any(re.search(r"^check\(|gradcheck\(", cell, re.MULTILINE) for cell in code)
    assert "<details>" in text
    for cell in code:
        assert cell.count("\n") < MOST_CODE, cell


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_code_that_draws_is_folded(path):
    """In a cell of its own: what a lesson computes is read without it."""
    for cell in cells_of(path):
        if cell["cell_type"] == "code":
            draws = any("image/png" in output.get("data", {}) for output in cell["outputs"])
            hidden = is_hidden(cell)
            assert draws == hidden, "".join(cell["source"])
            assert hidden == cell["metadata"].get("jupyter", {}).get("source_hidden", False)


def sentences(text):
    """The sentences of a text, of which formulas are parts."""
    text = re.sub(r"\$[^$]*\$", "x", text).replace("et al.", "et al")
    return [each for each in re.split(r"[.!?]\)?(?:\s+|$)", text) if each.strip()]


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_asks_and_answers_in_short(path):
    """In the one form from which slides show the question first and the answer after it."""
    slides = pytest.importorskip("slides")            # needs nbconvert
    asked = [pair for text in texts(path) for pair in slides.questions(text)]
    assert FEWEST <= len(asked) <= MOST
    for question, answer in asked:
        assert answer, f"no answer to {question}"
        assert 1 <= len(sentences(answer)) <= SENTENCES, answer
    text = "\n".join(texts(path)[1:])
    assert text.count("**Think") == text.count("<summary>Answer</summary>") == len(asked)
    assert not re.search(r"\*\*(Questions?|To think about)\.|<summary>Question", text)


def test_sentences_are_counted():
    assert len(sentences("It is 1.5 of $a. b$. Is it? (Smith et al. (2020) say so.)")) == 3


DRAWS = "matplotlib", "numformer.plots"               # all that these packages have


def drawing_names(cells):
    """The names in a lesson's code that draw, or that have been made by what draws."""
    found, before = set(), None
    nodes = [node for code in cells for node in ast.walk(tree_of(code))]
    while found != before:
        before = set(found)
        for node in nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                module = getattr(node, "module", None)
                found |= {(each.asname or each.name).split(".")[0] for each in node.names
                          if (module or each.name).startswith(DRAWS)}
            elif isinstance(node, ast.FunctionDef) and drawing_calls(node, found):
                found.add(node.name)
            elif isinstance(node, (ast.Assign, ast.For, ast.comprehension)):
                for target, value in bound(node):
                    root = root_of(value)
                    if isinstance(target, ast.Name) and root in found and (
                            isinstance(value, (ast.Call, ast.Name, ast.Subscript))):
                        found.add(target.id)
    return found


def tree_of(code):
    return ast.parse(re.sub("(?m)^%.*$", "", code))


def root_of(node):
    """The name with which an expression such as ``Figure(size).subplots(1, 2)[0]`` begins."""
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return getattr(node, "id", None)


def bound(node):
    """(target, value) of an assignment or a loop, in pairs where both are tuples or a zip."""
    if isinstance(node, ast.Assign):
        target, value = node.targets[-1], node.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            return zip(target.elts, value.elts)
        return [(each, value) for each in getattr(target, "elts", [target])]
    if isinstance(node.target, ast.Tuple) and root_of(node.iter) == "zip":
        return zip(node.target.elts, node.iter.args)
    return [(node.target, node.iter)]


def drawing_calls(tree, names):
    """The calls in a tree that draw, as code."""
    return [ast.unparse(node) for node in ast.walk(tree)
            if isinstance(node, ast.Call) and root_of(node.func) in names]


def is_hidden(cell):
    return "hide-input" in cell["metadata"].get("tags", ())


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_visible_cell_holds_no_drawing_call(path):
    cells = [cell for cell in cells_of(path) if cell["cell_type"] == "code"]
    code = ["".join(cell["source"]) for cell in cells]
    names = drawing_names(code)
    calls = [call for cell, each in zip(cells, code) for call in drawing_calls(tree_of(each), names)
             if not is_hidden(cell)]
    assert calls == []
    assert any(drawing_calls(tree_of(each), names) for each in code), "no picture was found"


@pytest.mark.parametrize("visible, drawn", [
    ("ax = Figure().add_subplot()", 2), ("panels(2)", 1), ("image_grid(x)[0].figure", 1),
    ("for a, x in zip(axes, (1, 2)):\n    a.plot(x)", 1), ("axes[0].set(xlabel='step')", 1),
    ("def show(x):\n    ax.plot(x)\n\n\nshow(x)", 2),
    ("import matplotlib.pyplot as plt\nplt.plot(x)", 1),
    ("x = np.plot(1)\nlosses.append(x.sum())", 0), ("names.plot(1)", 0)])
def test_drawing_calls_are_found(visible, drawn):
    hidden = ("from matplotlib.figure import Figure\nfrom numformer.plots.axes import image_grid\n"
              "def panels(n):\n    return Figure().subplots(1, n)\naxes = panels(2)\n"
              "ax, names = axes[0], []")
    calls = drawing_calls(tree_of(visible), drawing_names([hidden, visible]))
    assert len(calls) == drawn, calls


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_uses_the_words_of_the_field(path):
    own = prose(path).split("## Further reading")[0]                  # titles are other people's
    assert not [match.group() for match in AVOIDED.finditer(own)]
