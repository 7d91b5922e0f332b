"""Pictures do not depend on the user's settings of matplotlib, but for the fonts."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest

import drawn_twice
from drawn_twice import files, other_settings, twice
from marks import every
from numformer import plots
from numformer.commands import figures
from numformer.layers import LayerNorm
from numformer.plots import style
from numformer.plots.axes import new_axes
from numformer.plots.style import USERS

HERE = Path(__file__).parent


def test_other_settings_are_most_settings():
    found = other_settings()
    assert len(found) > 0.8 * len([name for name in matplotlib.rcParamsDefault
                                   if not name.startswith(USERS)])
    assert found["image.origin"] == "lower" and found["text.usetex"]
    assert not found["text.parse_math"]


@pytest.mark.parametrize("name", every(3, ["alibi", "rotary", "tile_order"]))
def test_a_figure_is_the_same_under_other_settings(name):
    one, other = twice(lambda: figures.DRAWN[name](None))
    assert one == other and len(one) == 1


@pytest.mark.slow
def test_a_diagram_is_the_same_under_other_settings():
    layer = LayerNorm(3)
    one, other = twice(lambda: plots.computation_graph(layer, np.ones((2, 3), np.float32)))
    assert one == other and len(one) == 1


def test_a_difference_is_noticed():
    """The test of these tests: what is drawn outside of the style has the user's settings."""
    one, other = twice(lambda: new_axes((3, 2)).imshow(np.eye(2), cmap="gray",
                                                           interpolation="nearest"))
    assert one != other


def test_a_picture_that_is_saved_later_has_its_own_style():
    with plots.dark():
        early, late = (plots.attention_map(np.tri(3)).figure for _ in range(2))
        expected = files([early])
    with matplotlib.rc_context(other_settings()):
        assert files([late]) == expected


def test_fonts_stay_the_users():
    with matplotlib.rc_context({"font.family": ["serif"], "font.serif": ["STIXGeneral"]}):
        font = new_axes().set_title("a").get_fontproperties()
        assert font.get_family() == ["serif"] and font.get_name() == "STIXGeneral"


def test_the_settings_are_as_before_after_a_picture():
    with matplotlib.rc_context(other_settings()):
        before = dict(matplotlib.rcParams)
        plots.attention_map(np.tri(3)).figure.draw_without_rendering()
        assert dict(matplotlib.rcParams) == before


@pytest.mark.slow
def test_all_pictures_of_quick_tests_are_the_same_under_other_settings():
    """Those of plots, each of which is drawn in a test, and of some experiments."""
    root = HERE.parents[2]
    paths = os.pathsep.join([str(HERE), str(root), os.environ.get("PYTHONPATH", "")])
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", drawn_twice.__name__,
         "-p", "no:cacheprovider", "-p", "no:xdist", "tests/plots", "tests/experiments",
         f"--ignore={Path(__file__).relative_to(root)}"],
        cwd=root, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout[-3000:]


@pytest.fixture
def settings_of(tmp_path, monkeypatch):
    """An empty folder of work, with folders "given", "own" and "home" of settings."""
    for name in ("given", "own", "home/matplotlib"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("MATPLOTLIBRC", "MPLCONFIGDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_file_of_settings_is_the_one_that_matplotlib_reads(settings_of, monkeypatch):
    assert style._settings_file() is None
    for variable, value, path in (
            ("MPLCONFIGDIR", "own", "own/matplotlibrc"),
            ("MATPLOTLIBRC", "given", "given/matplotlibrc"),
            ("MATPLOTLIBRC", "given/any", "given/any"), ("MATPLOTLIBRC", "", "matplotlibrc")):
        (settings_of / path).write_text("")
        monkeypatch.setenv(variable, value)
        monkeypatch.setattr(matplotlib, "get_configdir", lambda: str(settings_of / "own"))
        found = style._settings_file(), Path(matplotlib.matplotlib_fname())
        assert {each.resolve() for each in found} == {settings_of / path}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no pipes in folders")
def test_a_pipe_in_place_of_the_settings_is_not_read(settings_of, monkeypatch, capsys):
    os.mkfifo(settings_of / "matplotlibrc")
    held = {name: sys.modules[name] for name in [*sys.modules] if name.startswith("matplotlib")}
    read = []
    finder = SimpleNamespace(find_spec=lambda name, *_: read.append((name, Path.cwd())))
    with monkeypatch.context() as patch:
        for name in held:
            patch.delitem(sys.modules, name)
        patch.setattr(style, "find_spec", lambda name: held[name].__spec__)
        patch.setattr(sys, "meta_path", [finder])
        with pytest.raises(ImportError):
            style._import_matplotlib()
    assert read == [("matplotlib", Path(matplotlib.get_data_path()))]
    assert capsys.readouterr().err == (
        "numformer: matplotlibrc is no regular file, so the settings of matplotlib are its "
        "defaults\n")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="has no device without an end")
@pytest.mark.parametrize("path, words", [
    ("/dev/zero", "numformer: /dev/zero is no regular file, so the settings of matplotlib are its "
     "defaults\n"), (os.devnull, "")])
def test_a_device_in_place_of_the_settings_does_not_hang(path, words):
    found = subprocess.run(
        [sys.executable, "-c", "from numformer import plots; plots.axes.new_axes()"],
        env={**os.environ, "MATPLOTLIBRC": path}, capture_output=True, text=True, timeout=60)
    assert found.returncode == 0 and found.stderr == words
