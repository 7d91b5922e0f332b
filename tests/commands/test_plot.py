"""`numformer plot` draws every kind of picture for runs of several kinds."""

import numpy as np
import pytest

from command import call, last_json
from marks import quick_among
from numformer.analysis import attention_by_layer
from numformer.commands.shared.selection import Run
from numformer.plots import PICTURES
from numformer.runs import load_run

OF_A_DECODER = ("attention", "grid", "heads", "rollout", "query", "positions", "loss", "training",
                "flow", "residual", "activations", "lens", "contributions", "costs")


@pytest.mark.parametrize("kind", quick_among(OF_A_DECODER, ["query", "lens"]))
def test_plot_draws_every_kind_for_a_decoder(capsys, runs, kind, tmp_path):
    out = tmp_path / "picture.png"
    text = ["--text", "the lazy dog"] if "text" in PICTURES[kind].takes else []
    status, printed, _ = call(capsys, "plot", kind, runs("decoder"), *text, "--out", out, "--json")
    assert status == 0 and last_json(printed) == {"files": [str(out)]}
    assert out.read_bytes().startswith(b"\x89PNG")
    if kind in ("attention", "training"):
        again = tmp_path / "again.png"
        assert call(capsys, "plot", kind, runs("decoder"), *text, "--out", again)[0] == 0
        assert again.read_bytes() == out.read_bytes(), "the same run, the same bytes"


def test_plot_dead_draws_the_units_that_are_zero_for_a_text(capsys, runs, tmp_path):
    out = tmp_path / "dead.svg"
    assert call(capsys, "plot", "dead", runs("relu"), "--text", "t", "--out", out)[0] == 0
    assert "Dead hidden units" in out.read_text() and "% of units" in out.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("name, kind", [
    ("t5", "alignment"), ("t5", "attention"), ("t5", "grid"), ("t5", "heads"), ("t5", "rollout"),
    ("t5", "query"), ("t5", "positions"), ("t5", "residual"), ("vit", "patches"), ("t5", "flow"),
    ("t5", "activations"), ("vit", "attention"), ("vit", "positions"), ("vit", "rollout"),
    ("vit", "query"), ("vit", "residual"), ("ngram", "loss"), ("vit", "flow"),
    ("alibi", "positions"), ("alibi", "query"), ("lstm", "training")])
def test_plot_draws_runs_of_other_models(capsys, runs, name, kind):
    runs(name)
    capsys.readouterr()                                               # discard its output
    status, printed, err = call(capsys, "plot", kind, runs(name))
    assert (status, err) == (0, "")
    assert (runs(name) / f"{kind}.png").read_bytes().startswith(b"\x89PNG")
    assert f"{kind}.png" in printed


def opened(folder, **chosen):
    nothing = dict.fromkeys(("text", "view", "layer", "head", "query", "token"))
    return Run(str(folder), *load_run(folder), type("Chosen", (), {**nothing, **chosen}))


@pytest.mark.slow
def test_chosen_layer_head_and_query_are_drawn(runs):
    run = opened(runs("decoder"), text="the lazy dog", layer=1, head=2)
    model, tokenizer, *_ = load_run(runs("decoder"))
    ids = tokenizer.encode("the lazy dog")[None]
    weights = [*attention_by_layer(model, ids).values()]
    ax = PICTURES["attention"].draw(run)
    assert np.array_equal(ax.images[0].get_array(), weights[0][0, 1])
    assert "layer 1, head 2" in ax.get_title()
    assert [label.get_text() for label in ax.get_xticklabels()] == list("the␣lazy␣dog")
    four = PICTURES["attention"].draw(opened(runs("decoder"), text="the lazy dog")).figure
    shown = {ax.get_title(): ax.images[0].get_array() for ax in four.axes if ax.get_title()}
    assert len(shown) == 4 and all(np.array_equal(shown[f"layer {layer + 1}, head {head + 1}"],
                                                  weights[layer][0, head])
                                   for layer in range(2) for head in range(2))
    query = PICTURES["query"].draw(opened(runs("decoder"), text="the lazy dog", layer=2, head=1,
                                     query=3))
    drawn = [text.get_text() for text in query.axes[2].texts]
    # the weights of the four keys that the query may attend to
    assert drawn[5:5 + 3 * 4:3] == [f"{weight:.2f}" for weight in weights[1][0, 0, 3, :4]]
    encoder = PICTURES["grid"].draw(opened(runs("t5"), view="encoder"))
    assert "encoder" in encoder.get_suptitle()


def test_contributions_of_a_token_sum_to_its_logit(runs):
    run = opened(runs("decoder"), text="the lazy dog", token="x")
    model, tokenizer, *_ = load_run(runs("decoder"))
    ax = PICTURES["contributions"].draw(run)
    logit = model(tokenizer.encode("the lazy dog")[None])[0, -1, tokenizer.encode("x")[0]]
    assert abs(ax.patches[-1].get_width() - logit) < 1e-5 and "x" in ax.get_title()


def test_dark_pictures_have_a_dark_background(capsys, runs, tmp_path):
    from matplotlib.image import imread

    for flags, ground in (((), 1.0), (("--dark",), 20 / 255)):
        assert call(capsys, "plot", "loss", runs("decoder"), "--out", tmp_path / "loss.png",
                    *flags)[0] == 0
        assert abs(imread(tmp_path / "loss.png")[0, 0, 0] - ground) < 0.01


@pytest.mark.parametrize("name, words, expected", [
    ("decoder", ("plot", "attention", "--layer", 3), "--layer 3 must be 1 to 2"),
    ("decoder", ("plot", "attention", "--head", 0), "--head 0"),
    ("decoder", ("plot", "query", "--query", 99), "--query 99"),
    ("decoder", ("plot", "attention", "--view", "cross"), "choose from self"),
    ("decoder", ("plot", "attention", "--text", "the " * 5),
     "20 characters does not fit a model that reads 1 to 16"),
    ("decoder", ("plot", "attention", "--text", "\u4e2d"), "--text"),
    ("decoder", ("plot", "attention", "--text", ""), "--text"),
    ("decoder", ("plot", "contributions", "--token", "ab"), "2 tokens"),
    ("decoder", ("plot", "grid", "--layer", 1), "grid takes no --layer"),
    ("decoder", ("plot", "loss", "--text", "a"), "takes no --text"),
    ("decoder", ("plot", "attention", "--view", ""), "has no view ''"),
    ("decoder", ("explore", "--start", 3), "choose a part of --text"),
    ("t5", ("plot", "rollout", "--view", "cross"), "rollout needs self-attention"),
    ("t5", ("plot", "rollout", "--view", "x"), "no view 'x'"),
    ("t5", ("plot", "attention", "--text", "sort: " + 99 * "a"),
     "does not fit a model with a context of"),
    ("decoder", ("plot", "dance"), "dance is unknown; choose from activations"),
    ("decoder", ("plot", "loss", "--out", "loss.txt"), "loss.txt must end in .png"),
    ("decoder", ("plot", "patches"), "has no patches"),
    ("decoder", ("plot", "alignment"), "has no view 'cross'"),
    ("t5", ("plot", "alignment", "--view", "encoder"), "--view cross"),
    ("lstm", ("plot", "attention"), "has no attention"),
    ("lstm", ("plot", "residual"), "no Transformer blocks"),
    ("lstm", ("plot", "positions"), "no positions to draw"),
    ("lstm", ("plot", "lens"), "as a Decoder has"),
    ("lstm", ("plot", "flow"), "no Transformer blocks"),
    ("lstm", ("plot", "costs"), "known for a Decoder"), ("lstm", ("explore",), "no attention"),
    ("t5", ("plot", "lens"), "as a Decoder has"), ("t5", ("plot", "contributions"), "as a Decoder"),
    ("t5", ("plot", "costs"), "not for EncoderDecoder"),
    ("ngram", ("plot", "attention"), "has no layers"), ("ngram", ("plot", "residual"), "no layers"),
    ("decoder", ("plot", "dead"), "none of the 2 feed-forwards has dead units"),
    ("ngram", ("plot", "dead"), "no layers"), ("ngram", ("explore",), "no layers"),
    ("ngram", ("plot", "contributions"), "as a Decoder has"),
    ("ngram", ("plot", "flow"), "no Transformer blocks"),
    ("ngram", ("plot", "training"), "without gradients"),
    ("vit", ("plot", "patches", "--text", "9999"), "is no image of the test"),
    ("decoder", ("plot", "loss", "--out", "none/there/x.png"), "there is no folder none/there"),
    ("decoder", ("explore", "--out", "page.txt"), "must end in .html"),
    ("decoder", ("explore", "--text", ""), "--text is empty"),
    ("decoder", ("explore", "--text", "the", "--start", 9),
     "must be less than the number of tokens"), ("decoder", ("explore", "--most", 0), "--most=0"),
    ("decoder", ("explore", "--start", -1), "--start=-1"),
    ("decoder", ("explore", "--text", "\u4e2d"), "--text")])
def test_bad_options_are_one_line_that_names_them(capsys, runs, name, words, expected):
    verb, *rest = words
    kind, flags = (rest[:1], rest[1:]) if verb == "plot" else ([], rest)
    runs(name)
    capsys.readouterr()                                               # discard its output
    status, out, err = call(capsys, verb, *kind, runs(name), *flags)
    assert status in (1, 2) and expected in err and len(err.splitlines()) == 1, err


def test_a_missing_run_is_one_line(capsys, tmp_path):
    for words in (("plot", "loss"), ("explore",)):
        status, _, err = call(capsys, *words, tmp_path / "nothing")
        assert status == 2 and "there is no" in err and len(err.splitlines()) == 1
