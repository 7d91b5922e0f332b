"""The browser's Python itself, under node: what works natively works there, up to rounding, and
the simulation of it in machines.py is like it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from pydoc_data import topics

import numpy as np
import pytest

import machines
import pyodide_files
from command import last_json
from numformer import backend
from numformer.analysis import count
from numformer.models import CONFIGS
from numformer.runs import load_checkpoint

LACKING = pyodide_files.lacking()
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(LACKING), reason=LACKING)]
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def browser(tmp_path_factory, text):
    """(the results of in_pyodide.py, its folder)."""
    folder = tmp_path_factory.mktemp("browser")
    (folder / "text.txt").write_bytes(Path(text).read_bytes())
    (folder / "default text" / "pydoc_data").mkdir(parents=True)
    shutil.copy(topics.__file__, folder / "default text" / "pydoc_data")
    ended = pyodide_files.run(folder, HERE / "in_pyodide.py", folder, folder / "text.txt")
    assert ended.returncode == 0 and ended.stderr == "", ended.stderr[-3000:]
    return last_json(ended.stdout), folder


def test_the_simulated_browser_is_like_the_real_one(browser):
    paths = os.pathsep.join([str(pyodide_files.ROOT), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run([sys.executable, machines.__file__, "browser"], capture_output=True,
                           text=True, env={**os.environ, "PYTHONPATH": paths})
    assert ended.returncode == 0, ended.stderr
    assert last_json(ended.stdout) == browser[0]["facts"]


def test_work_is_the_same_as_here_up_to_rounding(browser, text, tmp_path):
    found, folder = browser
    with backend.using("numpy"):
        expected = machines.work(tmp_path, text)
    for verb in ("train", "resume", "eval", "sample", "exercises", "grade"):
        assert found[verb][0] == expected[verb][0] == 0, verb
    for verb in ("train", "exercises", "grade"):
        assert found[verb][1].replace(str(folder), str(tmp_path)) == expected[verb][1]
    assert found["right"] and not found["wrong"] and found["gradcheck"]
    assert all(found["audit"]) and len(found["audit"]) > 2
    arrays, facts = load_checkpoint(folder / "run" / "checkpoint.safetensors")
    wanted, facts_here = load_checkpoint(tmp_path / "run" / "checkpoint.safetensors")
    assert arrays.keys() == wanted.keys() and facts.keys() == facts_here.keys()
    for name, array in wanted.items():
        np.testing.assert_allclose(arrays[name], array, rtol=1e-3, atol=1e-5, err_msg=name)


def test_doctor_tells_what_is_so(browser):
    status, said = browser[0]["doctor"]
    checks = {check["name"]: check for check in last_json(said)["checks"]}
    assert status == 0 and all(check["ok"] for check in checks.values())
    assert checks["locks"]["found"] == "none" and checks["threads"]["note"]
    assert checks["products"]["found"].startswith("WebAssembly's, in place of NumPy's loops")
    assert checks["limits"]["found"] == "of time by steps of Python"
    assert "one long call of NumPy is not" in checks["limits"]["note"]
    assert "wasm32" in checks["Python"]["found"] and browser[0]["pointer"] == 32


def test_a_loop_without_end_is_stopped_and_a_process_is_refused(browser):
    words = browser[0]["limits"]
    assert [text for text in words["check"] if not text.startswith(
        "softmax: it ran for more than 0.5 s and was stopped in line ")] == []
    assert words["right afterwards"] and words["in use"] == []
    assert "it ran for more than 0.5 s and was stopped in line 3" in words["grade"]
    assert words["process"].startswith("check: process=True needs fork, which this system has not")


def test_published_models_have_the_same_costs_on_32_bits(browser):
    found = browser[0]["counts"]
    assert found == {name: count(CONFIGS[name]) for name in found}
    assert found.keys() == CONFIGS.keys() - {"switch-c"}
    assert max(costs["parameters"] for costs in found.values()) > 2**32


def test_every_cell_of_the_lesson_on_published_sizes_runs(browser):
    assert browser[0]["lesson"] == {"cells": 14, "figures": 5}


def test_products_of_webassembly_are_those_of_numpy_to_the_bit(tmp_path):
    ended = pyodide_files.run(tmp_path, HERE / "products_in_pyodide.py")
    assert ended.returncode == 0 and ended.stderr == "", ended.stderr[-3000:]
    found = last_json(ended.stdout)
    assert found["versions"] == ["wasm", "numpy", "wasm"] and found["unequal"] == []
    ours, theirs = found["losses"]
    assert ours == theirs and ours[-1] < ours[0]


def test_only_wheels_of_the_list_are_taken(tmp_path, monkeypatch):
    name = next(iter(pyodide_files.wheels()))
    monkeypatch.setattr(pyodide_files, "PACKAGES", tmp_path)
    pyodide_files._take(name, b"another wheel")
    pyodide_files._take("unknown.whl", (pyodide_files.FOLDER / "packages" / name).read_bytes())
    assert not list(tmp_path.iterdir()) and name in pyodide_files.lacking()
    (tmp_path / name).write_bytes(b"changed later")
    assert name in pyodide_files.lacking()
