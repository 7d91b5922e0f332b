"""`numformer figures` draws every figure, and trains each run once."""

import re
from pathlib import Path

import pytest
from PIL import Image

from command import SMALL, TEXT, call, last_json
from numformer.commands import figures
from numformer.commands.shared.deck_pictures import DECK
from numformer.commands.shared.output import save_picture, words_on
from numformer.plots.axes import new_axes

FIGURES = Path(__file__).parents[2] / "figures"
STEPS = ["--steps", "4", "--eval-every", "2", "--save-every", "0", "--threads", "1"]


@pytest.mark.parametrize("names", [
    ["sinusoids", "rotary"],
    pytest.param([*DECK], marks=pytest.mark.slow),
    pytest.param(["sinusoids", "similarity", "alibi", "rotary", "rotary_proof", "norms", "oracle",
                  "tile_order", "tile_frames", "tiles", "model_costs"],
                 marks=pytest.mark.slow)], ids=["two", "deck", "all"])
def test_figures_without_runs_are_drawn(capsys, names, tmp_path):
    status, printed, err = call(capsys, "figures", *names, "--out", tmp_path, "--json")
    files = last_json(printed)["files"]
    assert status == 0 and [re.sub(r".*/|\.\w+$", "", file) for file in files] == names
    assert err.count(" s  ") == len(names)
    for file in files:
        with open(file, "rb") as opened_file:
            assert opened_file.read(4) == (b"GIF8" if file.endswith("tiles.gif") else b"\x89PNG")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(DECK) - {"permutation"}))     # it has rounding errors
def test_the_words_on_a_figure_are_those_that_its_code_draws_today(name):
    """Names of pages, sizes, statements: a figure that is older than the code is to be redrawn."""
    with Image.open(FIGURES / f"{name}.png") as image:
        assert image.text["Description"] == words_on(DECK[name](None))


@pytest.mark.slow
def test_figures_of_runs_train_each_run_once(capsys, tmp_path, monkeypatch):
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    monkeypatch.setitem(figures.RUNS, "tiny", ("--preset", "gpt", "--data", text, *SMALL, *STEPS))
    monkeypatch.setattr(figures, "TEXT", "the lazy dog")
    monkeypatch.setitem(figures.OF_RUNS, "query", ("tiny", "query", {"layer": 1}))
    names = [name for name, (run, *_) in figures.OF_RUNS.items() if run == "tiny"]
    assert len(names) == 13
    status, _, err = call(capsys, "figures", *names, "--out", tmp_path / "figures", "--runs",
                          tmp_path / "runs")
    assert status == 0 and err.count("finished") == 1
    assert len(list((tmp_path / "figures").glob("*.png"))) == 13


@pytest.mark.slow
def test_the_film_of_a_run_is_an_animation(capsys, tmp_path, monkeypatch):
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    monkeypatch.setitem(figures.RUNS, "filmed", ("--preset", "gpt", "--data", text, *SMALL, *STEPS,
                                                 "--snapshots", 3))
    monkeypatch.setattr(figures, "FILM_TEXT", "the lazy dog")
    assert call(capsys, "figures", "replay", "--out", tmp_path, "--runs", tmp_path)[0] == 0
    with Image.open(tmp_path / "replay.gif") as gif:
        assert gif.n_frames == 3


def test_an_unknown_figure_is_an_error(capsys, tmp_path):
    status, _, err = call(capsys, "figures", "dance", "--out", tmp_path)
    assert status == 2 and "there is no dance; choose from attention" in err


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_saved_pictures_have_no_time_stamp(tmp_path, suffix):
    for name in ("a", "b"):
        save_picture(new_axes((2, 2)), tmp_path / f"{name}{suffix}")
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()
