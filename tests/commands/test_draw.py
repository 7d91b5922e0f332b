"""`numformer draw` draws models, presets, runs and layers, and refuses what it cannot draw."""

import re

import pytest

from command import call, last_json


@pytest.mark.slow
def test_draw_writes_a_vector_and_a_pixel_picture_here(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, printed, err = call(capsys, "draw", "gpt2", "--backward", "--json")
    assert (status, err) == (0, "")
    facts = last_json(printed)
    assert facts["files"] == ["gpt2.svg", "gpt2.png"]
    assert facts["parameters"] == 124_439_808 == sum(
        box["parameters"] * box["times"] for box in facts["boxes"])
    assert (tmp_path / "gpt2.svg").read_text().startswith("<?xml")
    assert (tmp_path / "gpt2.png").read_bytes().startswith(b"\x89PNG")


def test_a_preset_and_one_of_its_blocks_are_drawn(capsys, tmp_path):
    out = tmp_path / "block.pdf"
    status, printed, _ = call(capsys, "draw", "gpt", "--block", 2, "--slides", "--dark", "--out",
                              out, "--json")
    assert status == 0 and out.read_bytes().startswith(b"%PDF")
    assert "Query projection" in [box["name"] for box in last_json(printed)["boxes"]]


def test_a_poster_is_one_vector_file(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, err = call(capsys, "draw", "gpt2", "--poster")
    assert (status, out, err) == (0, "wrote gpt2-poster.pdf\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["gpt2-poster.pdf"]


def test_a_slide_with_small_text_says_so(capsys, tmp_path):
    """As of all that a layer computes, or of a model with many parts."""
    status, _, err = call(capsys, "draw", "LayerNorm", "--slides", "--out", tmp_path / "norm.svg")
    points = int(re.search(r"norm\.svg has text of (\d+) points on a slide, where 18", err)[1])
    svg = (tmp_path / "norm.svg").read_text(encoding="utf-8")
    width = float(re.search(r'width="([\d.]+)pt"', svg)[1])
    assert status == 0 and points < 18 and err.count("\n") == 1 and round(width / 72, 2) == 13.33
    status, _, err = call(capsys, "draw", "transformer-base", "--slides", "--out",
                          tmp_path / "base.svg")
    assert (status, err) == (0, "")


@pytest.mark.slow
def test_a_layer_is_drawn_with_what_it_keeps(capsys, tmp_path):
    status, printed, _ = call(capsys, "draw", "MultiHeadAttention", "--backward", "--out",
                              tmp_path / "attention.svg", "--json")
    forward, backward = last_json(printed)["computations"]
    assert status == 0 and backward["function"] == "backward"
    assert forward["saved"] == "(x, q, k, v, p, o)"
    assert {"x", "q", "k", "v", "p", "o"} == {
        each["name"] for each in forward["variables"] if each["role"] == "saved"}
    assert [step["text"] for step in forward["steps"] if step["name"]] == [
        "q kᵀ / √D", "softmax(scores)", "p v"]


@pytest.mark.slow
def test_a_run_and_its_layers_are_drawn_into_its_folder(capsys, runs):
    folder = runs("decoder")
    capsys.readouterr()
    assert call(capsys, "draw", folder)[0] == 0
    assert (folder / "architecture.png").exists() and (folder / "architecture.svg").exists()
    for path in ("blocks.0.attention", "blocks.1", "embedding", "norm"):
        status, _, err = call(capsys, "draw", folder, "--layer", path, "--out",
                              folder / "layer.png")
        assert (status, err) == (0, "")


@pytest.mark.parametrize("words, message", [
    (["nothing"], "nothing is neither a model, a preset, a layer nor a run"),
    (["gpt3-smal"], "did you mean gpt3-small"),
    (["gpt2", "--block", 13], "block=13, but Decoder has 12 blocks; give 1 .. 12"),
    (["Linear", "--block", 1], "Linear is a layer and has no --block"),
    (["gpt2", "--layer", "norm"], "--layer is for a run, but gpt2 is none"),
    (["Linear", "--poster"], "--poster is of a model; give the name of one"),
    (["digits-cnn", "--poster"], "the model has no blocks"),
    (["gpt2", "--poster", "--block", 13], "Decoder has 12 blocks"),
    (["gpt2", "--out", "picture.doc"], "must end in .png, .svg, .pdf")])
def test_what_cannot_be_drawn_is_refused_in_one_line(capsys, words, message):
    status, printed, err = call(capsys, "draw", *words)
    assert (status, printed) == (2, "") and message in err and err.count("\n") == 1


@pytest.mark.parametrize("words, message", [
    (["--layer", "blocks.7"], "has no layer 'blocks.7'"),
    (["--layer", "blocks.0", "--block", 1], "--block and --layer exclude each other"),
    (["--layer", "dropout"], "dropout cannot be run by itself")])
def test_layers_that_a_run_lacks_are_refused(capsys, runs, words, message):
    folder = runs("decoder")
    capsys.readouterr()
    status, _, err = call(capsys, "draw", folder, *words)
    assert status == 2 and message in err
