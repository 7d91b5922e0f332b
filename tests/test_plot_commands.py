"""Pictures from the command line: `plot`, `explore` and `figures`, on small runs of several kinds, and what they refuse."""

import json
import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from command import SMALL, TEXT, call, last_json
from numformer.cli import main
from numformer.commands import UsageError, figures
from numformer.commands.explore import cut
from numformer.commands.pictures import PICTURES, USES, Run
from numformer.commands.runs import load_run
from numformer.commands.show import save_picture
from numformer.plots.axes import new_axes
from numformer.tasks import TASKS, instructions
from numformer.tasks.library import SPECIAL
from numformer.tokenizers import BytePairTokenizer

STEPS = ["--steps", "4", "--eval-every", "2", "--save-every", "0", "--threads", "1"]
OF_A_DECODER = ("attention", "grid", "heads", "rollout", "query", "positions", "loss", "training", "flow", "residual", "activations",
                "dead", "lens", "contributions", "costs")


@pytest.fixture(scope="module", autouse=True)
def few_examples():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(instructions, "TRAINING_PAIRS", 200)
        patch.setattr(instructions, "HELD_OUT", 5)
        patch.setattr(instructions.InstructionTask, "longest", 6)
        instructions._pairs.cache_clear()
        yield
    instructions._pairs.cache_clear()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Small runs by name, each trained when it is first asked for."""
    folder, made = tmp_path_factory.mktemp("runs"), {}
    text = folder / "text.txt"
    text.write_text(TEXT)
    words = {
        "decoder": ["--preset", "gpt", "--data", text, *SMALL, "--n-layers", "2"],
        "alibi": ["--preset", "gpt", "--data", text, *SMALL, "--positions", "alibi"],
        "lstm": ["--preset", "lstm", "--data", text, "--d-model", "8", "--context-length", "16", "--batch-size", "4"],
        "ngram": ["--preset", "ngram", "--data", text],
        "t5": ["--preset", "t5", "--n-layers", "2", "--n-heads", "2", "--d-model", "16", "--batch-size", "8", "--warmup-steps", "2"],
        "vit": ["--preset", "vit", "--n-layers", "2", "--n-heads", "2", "--d-model", "8", "--batch-size", "8", "--warmup-steps", "2"],
    }

    def run(name):
        if name == "vit":
            pytest.importorskip("sklearn")
        if name not in made:
            made[name] = folder / name
            assert main([str(word) for word in ("train", "--out", made[name], *words[name], *STEPS)]) == 0
        return made[name]

    return run


@pytest.mark.parametrize("kind", OF_A_DECODER)
def test_pictures_of_a_decoder(capsys, runs, kind, tmp_path):
    out = tmp_path / "picture.png"
    text = ["--text", "the lazy dog"] if "text" in USES[kind] else []
    status, said, _ = call(capsys, "plot", kind, runs("decoder"), *text, "--out", out, "--json")
    assert status == 0 and last_json(said) == {"files": [str(out)]} and out.read_bytes().startswith(b"\x89PNG")
    if kind in ("attention", "training"):
        again = tmp_path / "again.png"
        assert call(capsys, "plot", kind, runs("decoder"), *text, "--out", again)[0] == 0
        assert again.read_bytes() == out.read_bytes(), "the same run, the same bytes"


@pytest.mark.parametrize("name, kind", [
    ("t5", "attention"), ("t5", "grid"), ("t5", "heads"), ("t5", "rollout"), ("t5", "query"), ("t5", "alignment"), ("t5", "positions"),
    ("t5", "residual"), ("t5", "activations"), ("t5", "flow"), ("vit", "attention"), ("vit", "patches"), ("vit", "positions"),
    ("vit", "rollout"),
    ("vit", "query"), ("vit", "residual"), ("vit", "flow"), ("alibi", "positions"), ("alibi", "query"), ("lstm", "training"),
    ("ngram", "loss")])
def test_pictures_of_other_runs(capsys, runs, name, kind):
    runs(name), capsys.readouterr()                                   # what its training said
    status, said, err = call(capsys, "plot", kind, runs(name))
    assert (status, err) == (0, "") and (runs(name) / f"{kind}.png").read_bytes().startswith(b"\x89PNG") and f"{kind}.png" in said


def opened(folder, **chosen):
    nothing = dict.fromkeys(("text", "view", "layer", "head", "query", "token"))
    return Run(str(folder), *load_run(folder), type("Chosen", (), {**nothing, **chosen}))


def test_what_was_chosen_is_drawn(runs):
    run = opened(runs("decoder"), text="the lazy dog", layer=1, head=2)
    model, tokenizer, *_ = load_run(runs("decoder"))
    weights = model.attention_weights(tokenizer.encode("the lazy dog")[None])
    ax = PICTURES["attention"](run)
    assert np.array_equal(ax.images[0].get_array(), weights[0][0, 1]) and "layer 1, head 2" in ax.get_title()
    assert [label.get_text() for label in ax.get_xticklabels()] == list("the␣lazy␣dog")
    mean = PICTURES["attention"](opened(runs("decoder"), text="the lazy dog"))
    np.testing.assert_allclose(mean.images[0].get_array(), weights[1][0].mean(axis=0), rtol=1e-6)
    query = PICTURES["query"](opened(runs("decoder"), text="the lazy dog", layer=2, head=1, query=3))
    said = [text.get_text() for text in query.axes[2].texts]
    shown = [float(word) for word in said[5:5 + 3 * 4:3]]             # the weights of the four keys that the query may look at
    np.testing.assert_allclose(shown, weights[1][0, 0, 3, :4], atol=6e-4)
    encoder = PICTURES["grid"](opened(runs("t5"), view="encoder"))
    assert "encoder" in encoder.get_suptitle()


def test_contributions_of_a_token(runs):
    run = opened(runs("decoder"), text="the lazy dog", token="x")
    model, tokenizer, *_ = load_run(runs("decoder"))
    ax = PICTURES["contributions"](run)
    logit = model(tokenizer.encode("the lazy dog")[None])[0, -1, tokenizer.encode("x")[0]]
    assert abs(ax.patches[-1].get_width() - logit) < 1e-5 and "x" in ax.get_title()


def test_dark_pictures(capsys, runs, tmp_path):
    from matplotlib.image import imread

    for flags, ground in (((), 1.0), (("--dark",), 20 / 255)):
        assert call(capsys, "plot", "loss", runs("decoder"), "--out", tmp_path / "loss.png", *flags)[0] == 0
        assert abs(imread(tmp_path / "loss.png")[0, 0, 0] - ground) < 0.01


@pytest.mark.parametrize("name, words, said", [
    ("decoder", ("plot", "attention", "--layer", 3), "--layer 3 must be 1 to 2"),
    ("decoder", ("plot", "attention", "--head", 0), "--head 0"),
    ("decoder", ("plot", "query", "--query", 99), "--query 99"), ("decoder", ("plot", "attention", "--view", "cross"), "choose from self"),
    ("decoder", ("plot", "attention", "--text", "the " * 5), "20 characters does not fit a model that reads 1 to 16"),
    ("decoder", ("plot", "attention", "--text", "\u4e2d"), "--text"), ("decoder", ("plot", "attention", "--text", ""), "--text"),
    ("decoder", ("plot", "contributions", "--token", "ab"), "2 tokens"),
    ("decoder", ("plot", "grid", "--layer", 1), "grid takes no --layer"), ("decoder", ("plot", "loss", "--text", "a"), "takes no --text"),
    ("decoder", ("plot", "attention", "--view", ""), "no attention called ''"), ("decoder", ("explore", "--start", 3), "are for --text"),
    ("t5", ("plot", "rollout", "--view", "cross"), "cannot be rolled out"), ("t5", ("plot", "rollout", "--view", "x"), "called 'x'"),
    ("t5", ("plot", "attention", "--text", "sort: " + 99 * "a"), "does not fit a model that was made for"),
    ("decoder", ("plot", "dance"), "dance is unknown; choose from attention"),
    ("decoder", ("plot", "loss", "--out", "loss.txt"), "loss.txt must end in .png"), ("decoder", ("plot", "patches"), "sees no patches"),
    ("decoder", ("plot", "alignment"), "no attention called 'cross'"), ("t5", ("plot", "alignment", "--view", "encoder"), "--view cross"),
    ("lstm", ("plot", "attention"), "no attention to look at"), ("lstm", ("plot", "residual"), "no Transformer blocks"),
    ("lstm", ("plot", "positions"), "no positions to draw"), ("lstm", ("plot", "lens"), "as a Decoder has"),
    ("lstm", ("plot", "flow"), "no Transformer blocks"), ("lstm", ("plot", "costs"), "those of Decoder"),
    ("lstm", ("explore",), "no attention"), ("t5", ("plot", "lens"), "as a Decoder has"), ("t5", ("plot", "contributions"), "as a Decoder"),
    ("t5", ("plot", "costs"), "not of EncoderDecoder"), ("ngram", ("plot", "attention"), "no layers to look into"),
    ("ngram", ("plot", "residual"), "no layers"), ("ngram", ("plot", "dead"), "no layers"), ("ngram", ("explore",), "no layers"),
    ("ngram", ("plot", "contributions"), "as a Decoder has"), ("ngram", ("plot", "flow"), "no Transformer blocks"),
    ("ngram", ("plot", "training"), "without a gradient"),
    ("vit", ("plot", "patches", "--text", "9999"), "is no image of the test"),
    ("decoder", ("plot", "loss", "--out", "none/there/x.png"), "No such file"),
    ("decoder", ("explore", "--out", "page.txt"), "must end in .html"), ("decoder", ("explore", "--text", ""), "--text is empty"),
    ("decoder", ("explore", "--text", "the", "--start", 9), "lies behind the text"), ("decoder", ("explore", "--most", 0), "--most=0"),
    ("decoder", ("explore", "--start", -1), "--start=-1"), ("decoder", ("explore", "--text", "\u4e2d"), "--text")])
def test_bad_requests(capsys, runs, name, words, said):
    verb, *rest = words
    kind, flags = (rest[:1], rest[1:]) if verb == "plot" else ([], rest)
    runs(name), capsys.readouterr()
    status, out, err = call(capsys, verb, *kind, runs(name), *flags)
    assert status in (1, 2) and said in err and len(err.splitlines()) == 1, err


def test_a_run_that_is_not_there(capsys, tmp_path):
    for words in (("plot", "loss"), ("explore",)):
        status, _, err = call(capsys, *words, tmp_path / "nothing")
        assert status == 2 and "there is no" in err and len(err.splitlines()) == 1


@pytest.mark.parametrize("text, start, most, part", [
    ("a[MASK]b", 0, 2, "a[MASK]"), ("日本語", 0, 4, "日"), ("日本語", 3, 6, "本語"), ("日本語", 1, 6, None), ("日本語", 0, 2, None)])
def test_a_part_of_a_text_in_byte_pairs(text, start, most, part):
    """Special tokens are one piece; three bytes make a character, and no part of one is shown."""
    tokenizer = BytePairTokenizer.of("aaaa", 257, special=SPECIAL)
    task, config = TASKS["topics"], SimpleNamespace(config=SimpleNamespace(context_length=99))
    asked = SimpleNamespace(text=text, start=start, most=most)
    if part is None:
        with pytest.raises(UsageError, match="cut a character in two"):
            cut(task, config, tokenizer, asked)
    else:
        assert cut(task, config, tokenizer, asked)[0] == part


def test_a_long_text_is_cut_and_says_so(capsys, runs, tmp_path):
    text, out = "the quick brown fox jumps", tmp_path / "page.html"
    status, said, _ = call(capsys, "explore", runs("decoder"), "--text", text, "--start", 4, "--out", out, "--json")
    data = json.loads(re.search(r'id="nf-data">(.*?)</script>', out.read_text(), re.DOTALL)[1])
    assert status == 0 and data["views"][0]["keys"] == list(text[4:20].replace(" ", "␣"))
    assert all(words in data["note"] for words in ("25 pieces", "4 to 19", "--start")) and last_json(said)["note"] == data["note"]
    assert call(capsys, "explore", runs("decoder"), "--text", text[:16], "--out", out)[0] == 0
    assert json.loads(re.search(r'id="nf-data">(.*?)</script>', out.read_text(), re.DOTALL)[1])["note"] == ""
    assert call(capsys, "explore", runs("decoder"), "--text", text, "--most", 5, "--out", out)[0] == 0
    data = json.loads(re.search(r'id="nf-data">(.*?)</script>', out.read_text(), re.DOTALL)[1])
    assert len(data["views"][0]["keys"]) == 5


@pytest.mark.parametrize("name, flags", [("t5", ("--text", "sort: cab")), ("t5", ()), ("vit", ("--text", "3")), ("decoder", ())])
def test_explore_other_runs(capsys, runs, name, flags):
    runs(name), capsys.readouterr()
    status, said, err = call(capsys, "explore", runs(name), *flags)
    page = (runs(name) / "explore.html").read_text()
    assert (status, err) == (0, "") and "explore.html" in said and ('"image": null' in page) == (name != "vit")


def test_figures_that_need_no_run(capsys, tmp_path):
    names = ["sinusoids", "similarity", "alibi", "rotary", "rotary_proof", "norms", "oracle", "tile_order", "tile_frames", "tiles",
             "account"]
    status, said, err = call(capsys, "figures", *names, "--out", tmp_path, "--json")
    files = last_json(said)["files"]
    assert status == 0 and [re.sub(r".*/|\.\w+$", "", file) for file in files] == names and err.count(" s  ") == len(names)
    for file in files:
        with open(file, "rb") as opened_file:
            assert opened_file.read(4) == (b"GIF8" if file.endswith("tiles.gif") else b"\x89PNG")


def test_figures_of_runs_train_each_once(capsys, runs, tmp_path, monkeypatch):
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    monkeypatch.setitem(figures.RUNS, "tiny", ("--preset", "gpt", "--data", text, *SMALL, *STEPS))
    monkeypatch.setattr(figures, "TEXT", "the lazy dog")
    monkeypatch.setitem(figures.OF_RUNS, "query", ("tiny", "query", {"layer": 1}))
    names = [name for name, (run, *_) in figures.OF_RUNS.items() if run == "tiny"]
    assert len(names) == 10
    status, _, err = call(capsys, "figures", *names, "--out", tmp_path / "figures", "--runs", tmp_path / "runs")
    assert status == 0 and err.count("finished") == 1 and len(list((tmp_path / "figures").glob("*.png"))) == 10


def test_figures_of_digits_without_scikit_learn_stop_before_anything_is_trained(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    status, said, err = call(capsys, "figures", "--out", tmp_path / "figures")
    assert status == 1 and "pip install 'numformer[data]'" in err and len(err.splitlines()) == 1 and not (tmp_path / "figures").exists()


def test_unknown_figures(capsys, tmp_path):
    status, _, err = call(capsys, "figures", "dance", "--out", tmp_path)
    assert status == 2 and "there is no dance; choose from attention" in err


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_pictures_know_no_time(tmp_path, suffix):
    for name in ("a", "b"):
        save_picture(new_axes((2, 2)), tmp_path / f"{name}{suffix}")
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()
