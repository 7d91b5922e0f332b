"""Presets of language models from the command line: sizes, n-grams and settings that do not fit."""

import json

import numpy as np
import pytest

from command import TEXT, call, last_json
from numformer.data import DOCUMENTATION, load_corpus
from numformer.analysis import count
from numformer.models import KINDS, KneserNey
from numformer.recipes import PRESETS
from numformer.data import consecutive_blocks

SIDE_BY_SIDE = ["rnn", "lstm", "cnn", "decoder-2017", "gpt", "llama", "moe"]


@pytest.mark.parametrize("flag", [["--learning-rate", "0.1"], ["--batch-size", "4"],
                                  ["--optimizer", "sgd"], ["--warmup-steps", "2"]])
def test_n_grams_refuse_settings_of_gradients(flag, capsys, text, tmp_path):
    status, _, err = call(capsys, "train", "--preset", "ngram", "--data", text, "--out",
                          tmp_path / "r", *flag)
    assert status == 2 and f"{flag[0]} has no effect on ngram" in err
    assert not (tmp_path / "r").exists()


def test_compared_models_have_the_same_size_and_tokens():
    # of another Python: a few characters more or fewer
    vocab_size = len(set(load_corpus(DOCUMENTATION).text)) + 10
    for preset in SIDE_BY_SIDE:
        chosen = PRESETS[preset]
        costs = count(KINDS[chosen.kind][1](vocab_size=vocab_size, **chosen.model))
        assert 0.785e6 < costs["active_parameters"] < 0.84e6
        assert (costs["parameters"] > 2e6) == (preset == "moe")
        assert len({tuple(PRESETS[name].training[key] for key in ("steps", "batch_size"))
                    for name in SIDE_BY_SIDE}) == 1
        assert chosen.model["context_length"] == PRESETS["ngram"].model["context_length"]


def test_validations_are_those_of_longer_n_grams(capsys, text, tmp_path):
    out = tmp_path / "run"
    call(capsys, "train", "--preset", "ngram", "--data", text, "--out", out, "--context-length", 16)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    losses = {line["step"]: line["val_loss"] for line in lines if "val_loss" in line}
    characters = sorted(set(TEXT))
    ids = np.array([characters.index(c) for c in TEXT])
    cut = int(0.9 * len(ids))
    for n in range(1, 8):
        model = KneserNey.fit(ids[:cut], n, len(characters))
        parts = [model.log_probabilities(np.append(row[:1], targets))[1:]
                 for batch in consecutive_blocks(ids[cut:], 16) for row, targets in zip(*batch)]
        assert losses[n] == pytest.approx(-np.concatenate(parts).mean(), rel=1e-12)
    assert list(losses) == list(range(1, 8)) and losses[7] < losses[2] < losses[1]
    assert last_json(call(capsys, "eval", out, "--json")[1])["n"] == 7


@pytest.mark.parametrize("argv, words", [
    (["--preset", "rnn", "--cell", "elman"],
     "cell='elman' is unknown; choose from 'rnn', 'lstm', 'gru'"),
    (["--preset", "cnn", "--kernel-width", "0"], "kernel_width=0"),
    (["--preset", "moe", "--experts-per-token", "9"], "more than the E=8")])
def test_settings_that_do_not_fit_are_refused(argv, words, capsys, text, tmp_path):
    status, _, err = call(capsys, "train", "--data", text, "--out", tmp_path / "r", *argv)
    assert status == 2 and words in err and not (tmp_path / "r").exists()
