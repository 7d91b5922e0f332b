"""`numformer plot` draws what a model has learned: embeddings, predictions, heads, landscapes."""

import numpy as np
import pytest

from command import SMALL, TEXT, call, last_json
from numformer.analysis import head_scores, token_losses
from numformer.cli import main
from numformer.commands.shared.selection import Run
from numformer.plots import PICTURES
from numformer.plots.predictions import loss_by_token
from numformer.plots.training import landscape
from numformer.runs import load_run

STEPS = ["--steps", "4", "--eval-every", "2", "--save-every", "0", "--threads", "1"]
OTHERS = {"recall": ["--preset", "recall"],
          "bert": ["--preset", "world-bert", "--n-layers", "1", "--n-heads", "2", "--d-model", "8",
                   "--batch-size", "4", "--warmup-steps", "2"]}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Small runs of presets that other tests of this folder do not need, and one with snapshots."""
    folder, made = tmp_path_factory.mktemp("runs"), {}
    text = folder / "text.txt"
    text.write_text(TEXT)
    words = {**OTHERS, "filmed": ["--preset", "gpt", "--data", text, *SMALL, "--snapshots", "4"]}

    def run(name):
        if name not in made:
            made[name] = folder / name
            assert main([str(word) for word in ("train", "--out", made[name], *words[name],
                                                *STEPS)]) == 0
        return made[name]

    return run


def opened(folder, **chosen):
    nothing = dict.fromkeys(("text", "view", "layer", "head", "query", "token", "data"))
    return Run(str(folder), *load_run(folder), type("Chosen", (), {**nothing, **chosen}))


def repeating(run):
    return run.task.repeating(run.model.config, run.tokenizer, 32, np.random.default_rng(0))


@pytest.fixture
def few_points(monkeypatch):
    monkeypatch.setattr(landscape, "POINTS", 3)


@pytest.mark.slow
@pytest.mark.parametrize("name, kind", [
    ("decoder", "embeddings"), ("decoder", "temperature"), ("decoder", "token-loss"),
    ("decoder", "induction"), ("decoder", "landscape"), ("lstm", "embeddings"),
    ("lstm", "temperature"), ("lstm", "token-loss"), ("t5", "embeddings"), ("t5", "patterns")])
def test_plot_draws_what_models_have_learned(capsys, runs, few_points, name, kind, tmp_path):
    runs(name)
    capsys.readouterr()                                               # discard its output
    out = tmp_path / "picture.png"
    status, printed, err = call(capsys, "plot", kind, runs(name), "--out", out, "--json")
    assert (status, err) == (0, "") and last_json(printed) == {"files": [str(out)]}
    assert out.read_bytes().startswith(b"\x89PNG")


def test_embeddings_are_of_all_tokens_by_class(runs):
    ax = PICTURES["embeddings"].draw(opened(runs("decoder")))
    _, tokenizer, *_ = load_run(runs("decoder"))
    assert sum(len(each.get_offsets()) for each in ax.collections) == len(tokenizer)
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["consonants", "vowels", "punctuation"]


def test_the_losses_of_a_text_are_drawn_also_if_it_is_longer_than_the_context(runs):
    text = TEXT[:40]
    ax = PICTURES["token-loss"].draw(opened(runs("decoder"), text=text))
    model, tokenizer, *_ = load_run(runs("decoder"))
    losses = token_losses(model, tokenizer.encode(text))
    assert model.config.context_length < 40 == len(losses) + 1
    np.testing.assert_array_equal(ax.collections[0].get_array(), losses)


def test_without_text_the_losses_are_of_the_held_out_tenth(runs, monkeypatch):
    monkeypatch.setattr(loss_by_token, "SHOWN_TOKENS", 30)
    ax = PICTURES["token-loss"].draw(opened(runs("decoder")))
    letters = "".join(text.get_text() for text in ax.texts)
    held_out = TEXT[len(TEXT) * 9 // 10:].replace(" ", "␣").replace("\n", "⏎")
    assert len(letters) == 30 and letters in held_out


@pytest.mark.slow
def test_induction_is_measured_on_repeated_tokens_or_at_keys(runs, trained):
    figure = PICTURES["induction"].draw(opened(runs("decoder")))
    table, first, second, *_ = figure.axes
    run = opened(trained("recall"))
    table = PICTURES["induction"].draw(run).axes[0].images[0].get_array()
    sequences, queries, shown = repeating(run)
    induction, previous = head_scores(run.model, sequences, queries)
    np.testing.assert_array_equal(table, [previous.ravel(), induction.ravel()])
    assert queries[:, ::2].all() and not queries[:, 1::2].any() and len(shown) == 16
    sequences, queries, shown = repeating(opened(runs("decoder")))
    half = sequences.shape[1] // 2
    assert queries is None and np.array_equal(sequences[:, :half], sequences[:, half:])
    assert np.array_equal(shown[:8], shown[8:]) and second.get_title().startswith("induction")


@pytest.mark.slow
def test_patterns_are_of_held_out_texts_or_of_a_text(trained):
    figure = PICTURES["patterns"].draw(opened(trained("bert")))
    assert "mean of 32 held-out texts" in figure.get_suptitle()
    table, *maps = [ax for ax in figure.axes if ax.images]
    assert table.images[0].get_array().shape == (6, 2) and len(maps) == 6
    one = PICTURES["patterns"].draw(opened(trained("bert"), text="anna met max ."))
    labels = [label.get_text() for label in one.axes[1].get_yticklabels()]
    assert "anna" in labels or "met" in labels
    assert one.axes[1].images[0].get_array().shape == (6, 6)          # with [CLS] and [SEP]


@pytest.mark.slow
def test_the_landscape_has_the_path_of_a_training_with_snapshots(runs, trained, few_points):
    figure = PICTURES["landscape"].draw(opened(trained("filmed")))
    titles = [ax.get_title() for ax in figure.axes if ax.get_title()]
    assert titles == ["random directions",
                      "the plane of the path of training"]
    path = next(line for line in figure.axes[1].lines if len(line.get_xdata()) > 1)
    assert len(path.get_xdata()) == 4 and path.get_xydata()[-1].tolist() == [0, 0]
    alone = PICTURES["landscape"].draw(opened(runs("decoder")))
    assert len([ax for ax in alone.axes if ax.get_title()]) == 1


def test_the_landscape_leaves_the_model_as_it_was(runs, few_points):
    run = opened(runs("decoder"))
    before = run.model.state_dict()
    PICTURES["landscape"].draw(run)
    assert all(np.array_equal(data, before[name]) for name, data in run.model.state_dict().items())


@pytest.mark.parametrize("name, words, expected", [
    ("decoder", ("patterns",), "patterns need an encoder"),
    ("decoder", ("token-loss", "--text", "a"), "give two or more"),
    ("decoder", ("token-loss", "--text", ""), "give two or more"),
    ("decoder", ("token-loss", "--text", "\u4e2d\u4e2d"), "--text"),
    ("decoder", ("temperature", "--text", ""), "--text"),
    ("decoder", ("induction", "--text", "abc"), "no token of ids comes twice"),
    ("decoder", ("induction", "--text", "a" * 40), "does not fit"),
    ("decoder", ("induction", "--layer", 1), "induction takes no --layer"),
    ("decoder", ("embeddings", "--text", "a"), "embeddings takes no --text"),
    ("decoder", ("landscape", "--text", "a"), "landscape takes no --text"),
    ("decoder", ("token_loss",), "did you mean token-loss"),
    ("lstm", ("induction",), "give the run of a Decoder"), ("lstm", ("patterns",), "no attention"),
    ("ngram", ("embeddings",), "has no embedding of tokens"),
    ("ngram", ("landscape",), "has no parameters"), ("ngram", ("temperature",), "no logits"),
    ("t5", ("temperature",), "gives no logits of next tokens"),
    ("t5", ("token-loss",), "gives no logits of next tokens"),
    ("t5", ("patterns", "--view", "decoder"), "patterns need an encoder"),
    ("vit", ("embeddings",), "has no embedding of tokens"),
    ("vit", ("token-loss",), "gives no logits of next tokens")])
def test_bad_options_are_one_line_with_the_cure(capsys, runs, name, words, expected):
    runs(name)
    capsys.readouterr()                                               # discard its output
    kind, *flags = words
    status, _, err = call(capsys, "plot", kind, runs(name), *flags)
    assert status in (1, 2) and expected in err and len(err.splitlines()) == 1, err
