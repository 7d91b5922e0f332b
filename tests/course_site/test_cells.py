"""What runs the cells of a page, tried in this Python: output, values, errors, packages."""

import hashlib
import io
import json
import sys
import zipfile

import pytest

pytest.importorskip("nbconvert")

from web import cells                                                 # noqa: E402


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs code as the next cell; (what is shown, the result)."""
    monkeypatch.setattr(cells, "FOLDER", tmp_path / "cells")
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    names, number = cells.new_names(), [0]

    def next_cell(code):
        shown, number[0] = [], number[0] + 1

        def show(kind, text):
            if kind == "text" and shown and shown[-1][0] == "text":
                text = shown.pop()[1] + text
            shown.append((kind, text))

        return shown, json.loads(cells.run(code, number[0], names, show))

    return next_cell


def test_a_cell_prints_and_shows_its_last_value(run):
    assert run("x = 2\nprint('a')\nprint('b')\nx + 1") == (
        [("text", "a\nb\n3\n")], {"ok": True, "right": None})
    assert run("x")[0] == [("text", "2\n")]           # of the cell before
    assert run("x;")[0] == run("")[0] == run("None")[0] == run("x = 1")[0] == []
    assert run("import sys\nprint('to', 'stderr', file=sys.stderr)")[0] == [("text", "to stderr\n")]


def test_verdicts_and_figures_are_shown_as_in_a_notebook(run):
    code = "import numpy as np\nfrom numformer import check\n\n\ndef softmax(x):\n{}\n\n\n" \
           "check('softmax', softmax, seed=0)"
    right = "    p = np.exp(x - x.max(-1, keepdims=True))\n    return p / p.sum(-1, keepdims=True)"
    shown, result = run(code.format(right))
    assert result == {"ok": True, "right": True}
    assert shown[0][0] == "html" and "right" in shown[0][1]
    shown, result = run(code.format("    return x"))
    assert result == {"ok": True, "right": False} and "wrong" in shown[0][1]
    shown, _ = run("%matplotlib inline\nfrom matplotlib.figure import Figure\n"
                   "ax = Figure().subplots()\nax.figure")
    assert shown[0][0] == "png" and shown[0][1].startswith("iVBOR")


def test_an_error_begins_with_the_line_of_the_cell(run):
    run("def f(x):\n    return 1 / x")
    shown, result = run("print('before')\nf(0)")
    assert not result["ok"] and shown[0] == ("text", "before\n") and shown[1][0] == "error"
    words = shown[1][1]
    assert words.splitlines()[1:3] == ["  Cell 2, line 2, in <module>", "    f(0)"]
    assert "  Cell 1, line 2, in f\n    return 1 / x" in words and words.endswith(
        "ZeroDivisionError: division by zero\n") and str(cells.FOLDER) not in words
    (_, words), = run("x = (")[0]
    assert words.startswith("  Cell 3, line 1\n    x = (\n") and "SyntaxError" in words
    (_, words), = run("%timeit f(1)")[0]
    assert "%timeit f(1): commands of Jupyter and of a shell do not run on this page" in words
    (_, words), = run("import no_such_package")[0]
    assert words.endswith("(no_such_package is not among the packages of this page.)\n")


def test_a_line_is_shown_before_the_next_is_printed(run):
    seen = []
    printed = cells.Printed(lambda kind, text: seen.append(text))
    for words in ("a\n", "b\n", "c"):
        printed.write(words)
    assert seen == ["a\n", "b\n"]
    printed.flush()
    assert seen[-1] == "c"


def test_a_stopped_cell_keeps_its_names_and_an_exit_ends_nothing(run):
    (_, words), = run("x = 1\nraise KeyboardInterrupt")[0]
    assert words.startswith("Stopped.") and run("x")[0] == [("text", "1\n")]
    (_, words), = run("raise SystemExit(3)")[0]
    assert "SystemExit: 3" in words and sys.stdout is not None
    assert not isinstance(sys.stdout, cells.Printed)


def test_a_cell_that_prints_without_end_is_cut(run, monkeypatch):
    monkeypatch.setattr(cells, "MOST", 10)
    shown, _ = run("for n in range(100):\n    print(n)")
    text = "".join(words for _, words in shown)
    assert text == "0\n1\n2\n3\n4\n\n... (more is not shown)\n"
    assert len(run("'a' * 100")[0][0][1]) == 10


def test_source_is_found_by_inspect_also_after_a_change(run):
    run("import inspect\n\n\ndef f():\n    return 1")
    assert run("inspect.getsource(f)")[0] == [("text", r"'def f():\n    return 1\n'" + "\n")]
    run("def f():\n    return 2")
    assert "return 2" in run("inspect.getsource(f)")[0][0][1]


def wheel(name):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr(f"{name}/__init__.py", "there = True\n")
    return data.getvalue()


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Makes a finder of two packages, the second of which needs the first."""
    def make(digest=None):
        files = {f"{name}.whl": wheel(name) for name in ("early_one", "late_one")}
        asked = []

        def fetch(address, name):
            asked.append(address)
            return files[address]

        rows = {name: [name, digest or hashlib.sha256(data).hexdigest()]
                for name, data in files.items()}
        place = tmp_path / "packages"
        place.mkdir()
        finder = cells.Packages({"late_one": [rows["late_one.whl"], rows["early_one.whl"]],
                                 "early_one": [rows["early_one.whl"]]}, fetch, str(place))
        monkeypatch.syspath_prepend(str(place))
        monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, finder])
        return asked

    yield make
    for name in ("early_one", "late_one"):
        sys.modules.pop(name, None)


def test_packages_come_when_they_are_imported_and_once(packages):
    asked = packages()
    with pytest.raises(ModuleNotFoundError):
        import another_one                                            # noqa: F401
    assert asked == []
    import late_one
    import early_one
    assert late_one.there and early_one.there and asked == ["late_one.whl", "early_one.whl"]


def test_a_package_that_was_changed_is_not_unpacked(packages, tmp_path):
    packages("0" * 64)
    with pytest.raises(ImportError, match="late_one.whl is not the file"):
        import late_one                                               # noqa: F401
    assert not list((tmp_path / "packages").iterdir())
