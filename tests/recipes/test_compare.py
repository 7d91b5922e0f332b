"""Runs side by side, the gradient against distance, and claims that are held against runs."""

import math

import numpy as np
import pytest

from command import call, last_json
from numformer.analysis import gradient_reach
from numformer.commands.reproduce import _median
from numformer.models import (
    ConvolutionLanguageModel, ConvolutionLanguageModelConfig, Decoder, DecoderConfig, NGramDecoder,
    NGramDecoderConfig, RecurrentLanguageModel, RecurrentLanguageModelConfig)
from numformer.plots import gradient_reach_curves, losses_by_tokens
from numformer.recipes import PRESETS, Claim, all_claims, preset_and_start

COUNTED = ["--context-length", "16", "--steps", "4", "--eval-every", "2"]
SMALL = [*COUNTED, "--batch-size", "4", "--warmup-steps", "2"]
SIZES = dict(vocab_size=12, context_length=10, n_layers=2, d_model=6, tied=False, dtype="float64")


@pytest.fixture(scope="module")
def runs(tmp_path_factory, text):
    """Three small runs of the same text."""
    from numformer.cli import main

    out = tmp_path_factory.mktemp("compared")
    for preset, more in (("lstm", ["--n-layers", "1", "--d-model", "16"]),
                         ("moe", ["--n-layers", "1", "--d-model", "16"]), ("ngram", [])):
        settings = COUNTED if preset == "ngram" else SMALL
        assert main(["train", "--preset", preset, "--data", text, "--out", str(out / preset),
                     *settings, *more]) == 0
    return [out / preset for preset in ("lstm", "moe", "ngram")]


# ---- the gradient against distance ---------------------------------------------------------------


@pytest.mark.parametrize("model", [
    RecurrentLanguageModel(RecurrentLanguageModelConfig(**SIZES, cell="lstm"),
                           np.random.default_rng(0)),
    ConvolutionLanguageModel(ConvolutionLanguageModelConfig(**SIZES), np.random.default_rng(0)),
    Decoder(DecoderConfig(**SIZES, n_heads=2, embedding_scale=True), np.random.default_rng(0))],
    ids=lambda m: type(m).__name__)
def test_gradients_by_distance_are_those_of_the_table_where_every_token_is_another(model):
    """Then the gradient of a token's row in the table is that of its one position, scaled."""
    rows, half = [np.random.default_rng(k).permutation(12)[:10] for k in range(2)], 5
    targets, wanted = np.random.default_rng(9).integers(0, 12, (2, 10)), np.zeros(half + 1)
    for ids, its_targets in zip(rows, targets):
        for t in range(half, 10):
            only = np.full((1, 10), -100)
            only[0, t] = its_targets[t]
            model.zero_grad()
            model.loss_backward(model.loss((ids[None], only))[1])
            wanted += [np.linalg.norm(model.embedding.weight.grad[ids[t - k]]) / 10
                       for k in range(half + 1)]
    model.zero_grad()
    wanted /= model.embedding.scale
    found = gradient_reach(model, np.stack(rows), targets, n_positions=10)
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    assert not any(parameter.grad.any()
                   for parameter in model.parameters()), "the model's own gradients are left alone"


def test_gradients_of_a_plain_recurrent_network_vanish_by_a_factor(rng):
    """With the recurrent matrix at half of an orthogonal one, each step halves the gradient."""
    sizes = {**SIZES, "n_layers": 1, "context_length": 40}
    model = RecurrentLanguageModel(RecurrentLanguageModelConfig(**sizes, cell="rnn"), rng)
    model.layers[0].recurrent_weight.data *= 0.5
    g = gradient_reach(model, rng.integers(0, 12, (2, 40)), rng.integers(0, 12, (2, 40)))
    stretch = np.linalg.cond(model.layers[0].input.weight.data)
    assert (g <= g[0] * stretch * 0.5 ** np.arange(21)).all() and g[20] < 1e-5 * g[0]


def test_sequences_of_one_token_are_refused(rng):
    model = RecurrentLanguageModel(RecurrentLanguageModelConfig(**SIZES), rng)
    with pytest.raises(ValueError, match="T=1"):
        gradient_reach(model, np.array([[1]]), np.array([[2]]))


@pytest.mark.slow
def test_models_with_ngram_embeddings_have_no_gradient_reach(rng, capsys, text, tmp_path):
    model = NGramDecoder(NGramDecoderConfig(**SIZES, n_heads=2, ngrams=2), rng)
    with pytest.raises(ValueError, match="use a Decoder"):
        gradient_reach(model, np.array([[1, 2]]), np.array([[2, 3]]))
    call(capsys, "train", "--preset", "speedrun", "--data", text, "--out", tmp_path / "r",
         "--d-model", 16, *SMALL)
    row, = last_json(call(capsys, "compare", tmp_path / "r", "--seconds", 0, "--json")[1])["runs"]
    assert row["gradient_reach"] is None and row["val_loss"] > 0


# ---- numformer compare ---------------------------------------------------------------------------


@pytest.mark.slow
def test_compare_prints_and_draws(capsys, runs, tmp_path):
    status, out, _ = call(capsys, "compare", *runs, "--seconds", 0, "--out", tmp_path / "side.png",
                          "--json")
    result = last_json(out)
    assert status == 0 and (tmp_path / "side.png").read_bytes().startswith(b"\x89PNG")
    assert result["files"] == [str(tmp_path / "side.png")]
    lstm, moe, ngram = result["runs"]
    assert [row["name"] for row in (lstm, moe, ngram)] == ["lstm", "moe", "ngram"]
    for folder, row in zip(runs, result["runs"]):
        assert row["val_loss"] == last_json(call(capsys, "eval", folder, "--json")[1])["val_loss"]
        assert row["memory_bytes"] > 1e5 and row["train_minutes"] > 0 and row["run"] == str(folder)
        assert (row["train_minutes"]
                == pytest.approx(row["seconds_per_million_tokens"] * row["tokens"] / 6e7))
    assert lstm["tokens"] == moe["tokens"] == 4 * 4 * 16
    assert moe["parameters"] > moe["active_parameters"]
    assert len(lstm["gradient_reach"]) == len(moe["gradient_reach"]) == 9
    assert ngram["gradient_reach"] is None
    assert [tokens for tokens, _ in lstm["losses"]] == [128, 256] and len(ngram["losses"]) == 1
    table = [line.split()[0] for line in out.splitlines()[2:5]]
    losses = {row["name"]: row["val_loss"] for row in result["runs"]}
    assert table == sorted(table, key=losses.get)


@pytest.mark.parametrize("argv, words", [
    (["nowhere"], "there is no nowhere/checkpoint.safetensors"),
    ([], "RUN is missing; see numformer compare --help"),
    (["x", "--out", "a.gif"], ".png, .svg, .pdf"),
    (["x", "--seconds", "-1"], "--seconds=-1"), (["x", "--threads", "0"], "--threads 0")])
def test_wrong_usage_of_compare_is_one_line(argv, words, capsys):
    status, _, err = call(capsys, "compare", *argv)
    assert status == 2 and words in err


@pytest.mark.slow
def test_runs_of_different_texts_are_not_compared(capsys, runs, tmp_path):
    (tmp_path / "other.txt").write_text("what else is there to read, but this line?\n" * 60)
    call(capsys, "train", "--preset", "ngram", "--data", tmp_path / "other.txt", "--out",
         tmp_path / "r", *COUNTED)
    status, _, err = call(capsys, "compare", runs[0], tmp_path / "r")
    assert status == 2 and "trained on other.txt" in err and "on fox.txt" in err


# ---- pictures ------------------------------------------------------------------------------------


def test_curves_differ_without_colour():
    curves = {str(k): [(1, 3.0), (2, 2.0 + k)] for k in range(9)}
    lines = losses_by_tokens(curves).lines
    assert len({(line.get_linestyle(), line.get_marker()) for line in lines[:8]}) == 8
    assert len(lines) == 9
    assert lines[3].get_xydata().tolist() == [[1, 3], [2, 5]] and "5.000" in lines[3].get_label()
    level, = losses_by_tokens({"counted": [(7, 1.5)]}).lines
    assert set(level.get_ydata()) == {1.5}


def test_gradients_are_drawn_as_parts_of_the_first():
    from matplotlib.figure import Figure

    given = Figure().add_subplot()
    ax = gradient_reach_curves({"rnn": [4.0, 2.0, 0.0, 1.0]}, given)
    assert ax is given and ax.get_yscale() == "log"
    assert ax.lines[0].get_xydata().tolist() == [[0, 1], [1, 0.5], [3, 0.25]]
    assert losses_by_tokens({"a": [(1, 1.0), (2, 0.5)]}, given) is given
    for draw in (gradient_reach_curves, losses_by_tokens):
        with pytest.raises(ValueError, match="nothing to draw"):
            draw({})


# ---- numformer reproduce -------------------------------------------------------------------------


def test_claims_name_presets():
    table = all_claims(PRESETS)
    named = set(table) | {name for claims in table.values() for claim in claims
                          for name in claim.ahead_of}
    assert {part for name in named for part in preset_and_start(name)} <= {None, *PRESETS, *table}


@pytest.mark.parametrize("order", [(1, 2, math.nan), (math.nan, 1, 2), (1, math.nan, 2)])
def test_the_median_of_seeds_with_nan_is_nan(order):
    assert math.isnan(_median(list(order))) and _median([3.0, 1.0, 2.0]) == 2


def test_claims_hold_or_not():
    lower = Claim(bound=1.3, ahead_of=("rnn", "lstm"))
    higher = Claim("exact", 0.9, ("gru",), "copied", more_is_better=True)
    assert lower.holds({"val_loss": 1.3}, {"rnn": 1.5, "lstm": 1.4}) is True
    assert lower.holds({"val_loss": 1.31}, {}) is False
    assert lower.holds({"val_loss": 1.2}, {"rnn": 1.2}) is False
    assert lower.holds({"val_loss": 1.2}, {"rnn": 1.5}) is None
    for exact, gru, copied, wanted in ((0.9, 0.1, 0.2, True), (0.89, 0.1, 0.2, False),
                                       (0.9, 0.9, 0.2, False), (0.9, 0.1, 0.9, False)):
        assert higher.holds({"exact": exact, "copied": copied}, {"gru": gru}) is wanted
    nan = float("nan")
    for claim in (Claim(bound=1.3), Claim("val_loss", 0.1, more_is_better=True)):
        assert claim.holds({"val_loss": nan}, {}) is False, "NaN is within no bound"
    assert Claim(ahead_of=("rnn",)).holds({"val_loss": nan}, {"rnn": 1.0}) is False
    assert Claim(ahead_of=("rnn",)).holds({"val_loss": 1.0}, {"rnn": nan}) is False
    assert Claim("exact", beats="copied").holds({"exact": 0.1, "copied": nan}, {}) is False
    assert Claim().holds({"val_loss": 7.0}, {}) is True and str(Claim()) == "-"
    assert str(lower) == "at most 1.3, ahead of rnn, ahead of lstm"
    assert str(higher) == "at least 0.9, better than copied, ahead of gru"


@pytest.mark.slow
def test_reproduce_trains_each_seed_once_and_writes_a_table(capsys, text, tmp_path, monkeypatch):
    from numformer.commands import reproduce

    monkeypatch.setitem(PRESETS, "ngram",
                        PRESETS["ngram"]._replace(claims=(Claim("bits_per_character", 5.0),)))
    argv = ["reproduce", "ngram", "--seeds", 3, "--steps", 3, "--data", text, "--out",
            tmp_path / "r", "--json"]
    status, out, _ = call(capsys, *argv)
    row, = last_json(out)["rows"]
    table = (tmp_path / "r" / "table.md").read_text()
    assert status == 0 and row["holds"] is True and row["median"] == sorted(row["each"])[1]
    assert len(row["each"]) == 3
    assert table.splitlines()[2].startswith("| ngram | bits per character |")
    assert "at most 5 | - | yes |" in table and "steps 3" in table
    monkeypatch.setattr(reproduce.train, "run", None)                 # whoever trains again, fails
    assert last_json(call(capsys, *argv)[1])["rows"] == [row]
    monkeypatch.setitem(PRESETS, "ngram",
                        PRESETS["ngram"]._replace(claims=(Claim("bits_per_character", 0.01),)))
    status, out, _ = call(capsys, *argv)
    assert status == 1 and "**no**" in out
    status, _, err = call(capsys, *argv, "--steps", 2)
    assert status == 2 and "other options; choose another --out" in err


@pytest.mark.slow
def test_reproduce_resumes_a_stopped_run(capsys, text, tmp_path):
    folder = tmp_path / "r" / "ngram-1"
    call(capsys, "train", "--preset", "ngram", "--data", text, "--seed", 1, "--steps", 3,
         "--stop-at", 2, "--out", folder)
    status, out, _ = call(capsys, "reproduce", "ngram", "--seeds", 1, "--steps", 3, "--data", text,
                          "--out", tmp_path / "r", "--json")
    row, = last_json(out)["rows"]
    assert row["minutes"] is None and "| - |" in out


@pytest.mark.parametrize("argv, words", [
    (["gpt9"], "there are no claims about gpt9 (did you mean gpt?); choose from ngram"),
    (["ngram", "--seeds", "0"], "--seeds 0")])
def test_wrong_usage_of_reproduce_is_one_line(argv, words, capsys):
    status, _, err = call(capsys, "reproduce", *argv)
    assert status == 2 and words in err
