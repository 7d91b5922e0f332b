"""Every verb on a user's machine: settings of other programs, a small terminal, no home."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import every_verb
from command import TEXT
from numformer.cli import VERBS, main
from numformer.data import BytePairTokenizer
from numformer.recipes import TextTask

NOWHERE = "/dev/null/nowhere"                         # a folder that nobody can make, not even root
SETTINGS = """\
backend: nosuchbackend
image.origin: lower
image.cmap: nosuchmap
text.usetex: True
text.parse_math: False
font.size: 33
axes.facecolor: red
axes.grid: True
axes.formatter.use_locale: True
path.sketch: 1, 100, 2
figure.constrained_layout.use: True
savefig.bbox: tight
savefig.dpi: 33
savefig.format: nosuchformat
savefig.transparent: True
animation.writer: html
nonsense: 3
"""
# name: (variables, where None is none at all; options of Python)
ENVIRONMENTS = {
    "notebook": ({"MPLBACKEND": "module://matplotlib_inline.backend_inline"}, ()),
    "bars": ({"TQDM_MININTERVAL": "x", "TQDM_POSITION": "q"}, ()),
    "backend": ({"MPLBACKEND": "module://nosuchmodule", "DISPLAY": None}, ()),
    "settings": ({"MPLCONFIGDIR": "settings"}, ()),
    "unreadable settings": ({"MATPLOTLIBRC": "unreadable"}, ()),
    "no compiler": ({"NUMBA_DISABLE_JIT": "1"}, ()),
    "numba": ({"NUMBA_CACHE_DIR": NOWHERE, "NUMBA_FULL_TRACEBACKS": "1",
               "NUMBA_NUM_THREADS": "1"}, ()),
    "optimized": ({}, ("-O",)),
    "without docstrings": ({}, ("-OO",)),
    "raising": ({"PYTHONPATH": "raising"}, ()),
    "ascii": ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0",
               "PYTHONIOENCODING": "ascii"}, ()),
    "terminal": ({"COLUMNS": "1", "LINES": "x", "TERM": "dumb", "NO_COLOR": "1"}, ()),
    "no terminal": ({"COLUMNS": "0", "LINES": "0", "TERM": None}, ()),
    "no home": ({"HOME": NOWHERE, "XDG_CACHE_HOME": None, "XDG_CONFIG_HOME": None}, ()),
    "no caches": ({"HOME": None, "XDG_CACHE_HOME": NOWHERE, "XDG_CONFIG_HOME": NOWHERE,
                   "MPLCONFIGDIR": NOWHERE, "TMPDIR": NOWHERE}, ()),
    "one core": ({"ONE_CORE": "1", "PYTHONPATH": "raising"}, ()),
}
# Tried at once, as none of a line hides another
TOGETHER = (
    ("notebook", "bars", "optimized", "no home"),
    ("settings", "terminal", "ascii", "without docstrings"),
    ("unreadable settings", "no terminal", "numba"),
    ("no compiler", "backend", "raising"),
    ("no caches", "one core"))
PICTURES = ("trained/attention.png", "drawn.svg", "attention.png", "token-loss.png", "run.gif",
            "figures/alibi.png")
PROGRAM, ROOT = Path(every_verb.__file__), Path(__file__).parents[3]
CUSTOMIZE = """\
import os

import numpy

numpy.seterr(all="raise")
if os.environ.get("ONE_CORE"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
"""


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A folder of a text, a run that can be exported, a solution, and the files of environments."""
    folder = tmp_path_factory.mktemp("base")
    (folder / "text.txt").write_text(TEXT)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(TextTask, "tokenizer",
                      lambda self, data: BytePairTokenizer.of(data.text, 20, split="gpt2"))
        assert main([*every_verb.COMMANDS["train"][0], "--out", "run"]) == 0
        assert main(["exercises", "1", "--out", "made"]) == 0
    (folder / "made" / "student").rename(folder / "solved")
    shutil.copy(folder / "made" / "teacher" / "01_softmax.py", folder / "solved")
    (folder / "settings").mkdir()
    (folder / "settings" / "matplotlibrc").write_text(SETTINGS)
    (folder / "unreadable").write_bytes(b"image.origin: lower  # \xff\n")
    (folder / "raising").mkdir()
    (folder / "raising" / "sitecustomize.py").write_text(CUSTOMIZE)
    return folder


def outcomes(base, folder, verbs, variables, options):
    """The results of the commands of verbs in an environment, each of which must be without fault.
    """
    shutil.copytree(base, folder, dirs_exist_ok=True)
    first = [str(folder / variables["PYTHONPATH"])] if "PYTHONPATH" in variables else []
    paths = os.pathsep.join([*first, str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, **variables, "PYTHONWARNINGS": "error", "PYTHONPATH": paths}
    ended = subprocess.run(
        [sys.executable, "-W", "error", *options, PROGRAM, *verbs], cwd=folder, text=True,
        env={name: value for name, value in environment.items() if value is not None},
        stdin=subprocess.DEVNULL, capture_output=True, timeout=1200)
    assert (ended.returncode, ended.stderr) == (0, "")
    found = json.loads(ended.stdout)
    assert [each for each in found if each["status"] != 0 or any(
        word in each["stderr"] for word in ("Traceback", "Warning", "Error"))] == []
    return found


@pytest.fixture(scope="module")
def usual(base, tmp_path_factory):
    """What all verbs write in the usual environment."""
    folder = tmp_path_factory.mktemp("usual")
    outcomes(base, folder, every_verb.COMMANDS, {"MPLBACKEND": None}, ())
    return folder


@pytest.mark.parametrize("verb", VERBS)
def test_the_page_of_a_verb_begins_with_commands(verb):
    assert every_verb.COMMANDS[verb] and {words[0] for words in every_verb.COMMANDS[verb]} == {verb}


@pytest.mark.slow
def test_some_verbs_where_everything_is_unusual(base, tmp_path):
    """Without a compiler, as that takes long; then without docstrings, with warnings as errors."""
    variables, _ = joined(("settings", "no compiler", "raising", "ascii", "terminal"))
    verbs = ["train", "sample", "plot", "deck"]
    found = outcomes(base, tmp_path, verbs, {
        **variables, "MPLBACKEND": "module://nosuchmodule", "TQDM_MININTERVAL": "x",
        "HOME": NOWHERE}, ("-OO",))
    assert len(found) == sum(len(every_verb.COMMANDS[verb]) for verb in verbs)


def joined(names):
    """The variables and options of several environments in one."""
    variables, options = {}, ()
    for name in names:
        assert not variables.keys() & ENVIRONMENTS[name][0].keys() - {"PYTHONPATH"}, name
        variables |= ENVIRONMENTS[name][0]
        options += ENVIRONMENTS[name][1]
    return variables, options


def test_every_environment_is_tried():
    assert sorted(name for names in TOGETHER for name in names) == sorted(ENVIRONMENTS)


@pytest.mark.slow
@pytest.mark.parametrize("names", TOGETHER, ids=" and ".join)
def test_every_verb_in_every_environment(base, usual, tmp_path, names):
    found = outcomes(base, tmp_path, every_verb.COMMANDS, *joined(names))
    stdout = {each["words"][0]: each["stdout"] for each in found}
    assert stdout.keys() == VERBS.keys()
    if {"notebook", "settings", "unreadable settings"} & set(names):
        for picture in PICTURES:
            assert (tmp_path / picture).read_bytes() == (usual / picture).read_bytes(), picture
    if "no compiler" in names:
        assert "note  kernels                 none: NUMBA_DISABLE_JIT is set" in stdout["doctor"]
    if "one core" in names:
        assert "threads                 1 of " in stdout["doctor"]
