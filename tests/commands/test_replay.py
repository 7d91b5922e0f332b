"""`numformer replay`: the numbers of a film are the models', and its files are what they say."""

import base64
import html
import io
import json
import re
import shutil
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from types import SimpleNamespace

import numpy as np
import pytest

from command import call, last_json
from numformer.analysis import attention_by_layer
from numformer.cli import main
from numformer.commands.views.film import film_of
from numformer.commands.views.states import States
from numformer.generation import generate
from numformer.plots.meaning.maps import first_two_directions
from numformer.plots.training.curves import moving_average
from numformer.runs import read_metrics

FILMED, TEXT = ["--snapshots", "4", "--steps", "6"], "the lazy dog"


@pytest.fixture(scope="module")
def filmed(tmp_path_factory, text):
    """A function of the name of a preset: a run of six steps with four snapshots."""
    folder, made = tmp_path_factory.mktemp("filmed"), {}
    small = {
        "gpt": ["--data", text, "--n-layers", "2", "--n-heads", "2", "--d-model", "16",
                "--context-length", "16", "--batch-size", "4", "--eval-every", "2"],
        "lstm": ["--data", text, "--d-model", "8", "--context-length", "16", "--batch-size", "4"],
        "t5": ["--n-layers", "2", "--n-heads", "2", "--d-model", "16", "--batch-size", "8"],
        "vit": ["--n-layers", "1", "--n-heads", "2", "--d-model", "8", "--batch-size", "8"],
    }

    def run(name):
        if name not in made:
            made[name] = folder / name
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                assert main(["train", "--preset", name, "--out", str(made[name]),
                             "--warmup-steps", "2", *small[name], *FILMED]) == 0
        return made[name]

    return run


def film(folder, **chosen):
    chosen = {"text": TEXT, "layer": None, "head": None, "seed": 0, **chosen, "run": str(folder)}
    return film_of(States(folder), SimpleNamespace(**chosen),
                   read_metrics(folder / "metrics.jsonl"))


@pytest.mark.slow
def test_the_numbers_of_a_film_are_those_of_the_models(filmed):
    folder = filmed("gpt")
    states, made = States(folder), film(folder, layer=1, head=2, seed=3)
    assert made.steps == states.steps == [0, 1, 2, 6] and made.head == "layer 1, head 2"
    tokenizer = states.tokenizer
    ids = tokenizer.encode(TEXT)
    for number, step in enumerate(made.steps):
        model = states.at(step)
        first, _ = attention_by_layer(model, ids[None]).values()
        np.testing.assert_allclose(made.attention[number], first[0, 1], rtol=1e-5, atol=1e-7)
        written = generate(model, ids, 360, np.random.default_rng(3), 0.8)
        assert made.samples[number] == tokenizer.decode(list(written))
    vectors = model.embedding.weight.data[tokenizer.encode("".join(made.tokens))]
    np.testing.assert_allclose(made.points[-1], first_two_directions(vectors.astype(float)),
                               atol=1e-6)
    assert made.mask.tolist() == np.tril(np.ones((12, 12), bool)).tolist()
    assert dict(zip(made.tokens, made.classes)) | {"a": "vowels", "b": "consonants", " ":
                                                   "punctuation"} == dict(zip(made.tokens,
                                                                              made.classes))
    lines = read_metrics(folder / "metrics.jsonl")
    assert made.losses == [(line["step"] - 1, line["loss"]) for line in lines if "loss" in line]
    assert [step for step, _ in made.validations] == [2, 4, 6] and len(made.losses) == 6


@pytest.mark.slow
def test_by_default_the_head_changes_most(filmed):
    states = States(filmed("gpt"))
    first, last = (np.stack([layer[0] for layer in attention_by_layer(
        states.at(step), states.tokenizer.encode(TEXT)[None]).values()]) for step in (0, 6))
    changes = np.abs(last - first).sum(axis=(2, 3))
    layer, head = np.unravel_index(changes.argmax(), changes.shape)
    assert film(filmed("gpt")).head == f"layer {layer + 1}, head {head + 1}"
    assert film(filmed("gpt"), layer=1).head == f"layer 1, head {changes[0].argmax() + 1}"
    assert film(filmed("gpt"), head=1).head == f"layer {changes[:, 0].argmax() + 1}, head 1"


@pytest.mark.slow
def test_the_same_seed_writes_the_same_and_another_does_not(filmed):
    one, again, other = (film(filmed("gpt"), seed=seed).samples for seed in (0, 0, 1))
    assert one == again and all(a != b for a, b in zip(one, other))


@pytest.mark.slow
def test_a_gif_has_a_frame_for_each_state_and_one_palette(capsys, filmed, tmp_path):
    from PIL import Image

    out = tmp_path / "film.gif"
    status, printed, err = call(capsys, "replay", filmed("gpt"), "--text", TEXT, "--out", out,
                                "--seconds", 2, "--json")
    assert (status, err) == (0, "") and last_json(printed)["steps"] == [0, 1, 2, 6]
    with Image.open(out) as gif:
        assert gif.size == (800, 700) and gif.n_frames == 4 and gif.info["loop"] == 0
        durations, frames = [], []
        for number in range(4):
            gif.seek(number)
            durations.append(gif.info["duration"])
            frames.append(np.asarray(gif.convert("RGB")))
    assert durations == [500, 500, 500, 3500]
    assert all((a != b).any() for a, b in zip(frames, frames[1:]))
    assert (frames[0][:5] == frames[3][:5]).all() and (frames[0][0, 0] == 255).all()
    call(capsys, "replay", filmed("gpt"), "--text", TEXT, "--out", tmp_path / "dark.gif", "--dark",
         "--slides", "--frames", 2)
    with Image.open(tmp_path / "dark.gif") as gif:
        assert gif.size == (1333, 750) and gif.n_frames == 2
        assert gif.convert("RGB").getpixel((0, 0)) == (0x14, 0x16, 0x1a)


@pytest.mark.slow
def test_an_mp4_gets_its_frames_from_ffmpeg(capsys, filmed, tmp_path, monkeypatch):
    """A program of that name which writes what it reads."""
    program = tmp_path / "bin" / "ffmpeg"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nfor last; do :; done\ncat > "$last"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    out = tmp_path / "film.mp4"
    assert call(capsys, "replay", filmed("gpt"), "--text", TEXT, "--out", out, "--fps", 2)[0] == 0
    assert out.stat().st_size == (4 + 3 * 2) * 800 * 700 * 4 and [*tmp_path.glob(".*")] == []
    monkeypatch.setenv("PATH", str(tmp_path))
    status, _, err = call(capsys, "replay", filmed("gpt"), "--out", tmp_path / "b.mp4")
    assert status == 2 and "needs ffmpeg, which is not on the PATH" in err


@pytest.mark.slow
def test_a_page_holds_the_numbers(capsys, filmed, tmp_path):
    out, made = tmp_path / "film.html", film(filmed("gpt"))
    assert call(capsys, "replay", filmed("gpt"), "--text", TEXT, "--out", out)[0] == 0
    page = out.read_text()
    data = json.loads(re.search(r'id="nf-data">(.*?)</script>', page, re.DOTALL)[1])
    weights = np.frombuffer(base64.b64decode(data["attention"]), "<u2") / 65535
    assert np.abs(weights - made.attention.ravel()).max() < 1e-5
    points = np.frombuffer(base64.b64decode(data["points"]), "<f4")
    assert np.abs(points - made.points.ravel()).max() < 1e-5
    assert data["samples"] == made.samples and data["steps"] == made.steps
    assert data["validations"] == [list(pair) for pair in made.validations]
    assert re.findall(r"https?://[\w.]+", page) == ["http://www.w3.org"]       # SVG's namespace


@pytest.mark.slow
def test_a_page_in_a_browser_plays_to_the_last_state(capsys, filmed, tmp_path):
    """Headless Chromium runs the script for some seconds of its own time, and prints the page."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("there is no Chromium")
    out, made = tmp_path / "film.html", film(filmed("gpt"))
    call(capsys, "replay", filmed("gpt"), "--text", TEXT, "--out", out, "--fps", 4)
    page = subprocess.run(
        [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
         f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=9000", "--dump-dom",
         out.as_uri()], capture_output=True, text=True, timeout=120).stdout
    assert "<output>step 6 of 6</output>" in page and 'aria-valuetext="step 6 of 6"' in page
    assert f"<b>{TEXT}</b>" in page and page.count('class="masked"') == 12 * 11 / 2
    written = html.unescape(re.search("<span>(.*?)</span>", page, re.DOTALL)[1])
    assert written == made.samples[-1]
    opacities = re.findall(r'<rect x="\d+" y="\d+" width="20" height="20" class="" '
                           r'fill-opacity="([\d.]+)"', page)
    expected = made.attention[-1][made.mask] / made.attention.max()
    assert np.abs(np.array(opacities, float) - expected).max() < 1e-3
    marker = re.search(r'<text class="marker"[^>]*>([\d.]+)', page)[1]
    assert abs(float(marker) - moving_average([loss for _, loss in made.losses])[-1]) < 0.006


@pytest.mark.slow
def test_a_recurrent_model_has_no_attention_to_show(capsys, filmed):
    made = film(filmed("lstm"))
    assert made.attention is None and made.points.shape[0] == len(made.samples) == 4
    assert call(capsys, "replay", filmed("lstm"), "--text", TEXT, "--frames", 2)[0] == 0
    status, _, err = call(capsys, "replay", filmed("lstm"), "--text", TEXT, "--head", 1)
    assert status == 2 and "has no attention; leave --layer and --head out" in err


@pytest.mark.slow
def test_an_encoder_decoder_shows_its_answer_and_alignment(capsys, filmed):
    made = film(filmed("t5"), text="sort: cab")
    assert made.keys == list("sort: cab") and made.attention.shape[2] == 9
    states = States(filmed("t5"))
    answers = [states.task.answer(states.at(step), states.tokenizer, "sort: cab")[0]
               for step in states.steps]
    assert made.samples == answers and made.prompt == "sort: cab\n"
    assert call(capsys, "replay", filmed("t5"), "--text", "sort: cab", "--frames", 2)[0] == 0


def test_a_run_without_snapshots_shows_two_states_or_says_how(capsys, filmed, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(filmed("gpt"), copy)
    shutil.rmtree(copy / "snapshots")
    status, _, err = call(capsys, "replay", copy)
    assert status == 2 and "train with numformer train --snapshots 40" in err
    shutil.copy(filmed("gpt") / "snapshots" / "2.safetensors", copy / "best.safetensors")
    status, printed, _ = call(capsys, "replay", copy, "--text", TEXT, "--out", copy / "a.html",
                              "--json")
    assert status == 0 and "no snapshots: shown are its best and its last" in printed
    assert last_json(printed)["steps"] == [2, 6]


@pytest.mark.parametrize("argv, words", [
    (["--out", "film.png"], "must end in .gif, .mp4, .html"),
    (["--out", "nowhere/film.gif"], "there is no folder nowhere"),
    (["--frames", 1], "--frames 1 must be 2 or more"), (["--seed", -1], "--seed -1 must be 0"),
    (["--fps", 0], "--fps 0 must be 0.1 to 50"), (["--fps", "nan"], "--fps nan must be"),
    (["--seconds", 0], "--seconds 0 must be above 0"),
    (["--seconds", 0.01], "--seconds 0.01 is too short for 4 states; give 0.08 or more"),
    (["--fps", 2, "--seconds", 2], "both set the speed"), (["--layer", 3], "--layer 3 must be 1"),
    (["--head", 0], "--head 0 must be 1 to 2"), (["--text", ""], "--text is empty"),
    (["--text", "\u4e2d"], "--text: CharacterTokenizer: the text holds"),
    (["--text", "the dog " * 9], "--text: a text of 72 characters does not fit"),
    (["--out", "film.html", "--slides"], "--slides is for .gif and .mp4")])
def test_options_that_cannot_be_are_refused(capsys, filmed, argv, words, tmp_path, monkeypatch):
    folder = filmed("gpt")
    monkeypatch.chdir(tmp_path)
    status, _, err = call(capsys, "replay", folder, *argv)
    assert status == 2 and words in err and len(err.splitlines()) == 1
    assert [*tmp_path.iterdir()] == []


@pytest.mark.slow
def test_a_task_without_texts_is_refused(capsys, filmed):
    status, _, err = call(capsys, "replay", filmed("vit"))
    assert status == 2 and "supported are language models and encoder-decoders" in err


@pytest.mark.slow
def test_broken_snapshots_are_errors_in_one_line(capsys, filmed, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(filmed("gpt"), copy)
    snapshot = copy / "snapshots" / "2.safetensors"
    whole = snapshot.read_bytes()
    for data, words in ((whole[:100], "is no checkpoint, or was cut short"),
                        (whole[:-4] + b"\0\0\0\0", "was changed after it was written"),
                        ((copy / "snapshots" / "1.safetensors").read_bytes(),
                         "holds step 1, but is named 2"),
                        ((filmed("lstm") / "snapshots" / "2.safetensors").read_bytes(),
                         "arrays whose shapes do not match")):
        snapshot.write_bytes(data)
        status, _, err = call(capsys, "replay", copy, "--text", TEXT)
        assert status == 1 and words in err and len(err.splitlines()) == 1
