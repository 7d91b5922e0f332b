"""The course: each notebook runs from its source, shows its pictures, is committed as it runs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "notebooks"
SOURCES = sorted((ROOT / "source").glob("*.py"))
MOST_BYTES = 900_000                                  # GitHub shows files below 1 MB


def cells_of(path):
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def text_of(cell):
    return "".join(cell["source"])


def pictures(cell):
    return [output for output in cell.get("outputs", []) if "image/png" in output.get("data", {})]


def promised(cell):
    """Whether a cell ends with a figure to show."""
    return cell["cell_type"] == "code" and text_of(cell).rstrip().endswith(".figure")


def test_the_course_is_whole():
    assert [source.stem[:2] for source in SOURCES] == [f"{number:02d}" for number in range(24)]
    assert sorted(path.stem for path in ROOT.glob("*.ipynb")) == [source.stem for source in SOURCES]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_notebook_is_committed_as_its_source_says(source):
    path = ROOT / f"{source.stem}.ipynb"
    cells, lines = cells_of(path), source.read_text(encoding="utf-8")
    assert path.stat().st_size < MOST_BYTES
    marked = [cell.split("\n", 1)[1].strip("\n")
              for cell in re.split(r"^# %%", lines, flags=re.MULTILINE)[1:]]
    for cell, wanted in zip(cells, marked, strict=True):
        if cell["cell_type"] == "markdown":
            wanted = "\n".join(re.sub("^# ?", "", line) for line in wanted.split("\n"))
        wanted = wanted.replace("# %matplotlib inline", "%matplotlib inline")
        assert text_of(cell).strip("\n") == wanted
    assert re.match(rf"# {int(source.stem[:2])}\. ", text_of(cells[0]))
    for cell in cells:
        assert not any(output["output_type"] == "error" for output in cell.get("outputs", []))
        assert not promised(cell) or pictures(cell), text_of(cell)
    assert sum(map(promised, cells)) >= 1 and "widget" not in path.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_notebook_runs(source, tmp_path):
    pytest.importorskip("jupytext"), pytest.importorskip("nbclient")
    command = [sys.executable, "-W", "ignore", str(ROOT / "build.py"), source.stem]
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}         # other tests run beside it
    ran = subprocess.run([*command, "--out", str(tmp_path)], capture_output=True, text=True,
                         env=one_thread)
    assert ran.returncode == 0, ran.stderr[-3000:]
    for cell in cells_of(tmp_path / f"{source.stem}.ipynb"):
        assert not promised(cell) or pictures(cell), f"no picture came of\n{text_of(cell)}"
