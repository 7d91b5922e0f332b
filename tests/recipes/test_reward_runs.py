"""Learning from rewards, from the command line and as rounds."""

import json

import numpy as np
import pytest

from command import call, content
from numformer.data.corpora.verifiable import Sums
from numformer.recipes import PRESETS
from numformer.recipes.alignment.rewards import advantages_of
from numformer.runs import load_run
from tiny_presets import start_flags, tiny_flags

MANY = ["--updates", "3", "--beta", "0.1", "--normalization", "sequence", "--samples", "4",
        "--learning-rate", "0.03"]


def test_a_run_needs_a_model_that_answers(capsys, tmp_path):
    status, _, err = call(capsys, "train", "--preset", "sums-grpo", "--out", tmp_path / "r")
    assert status == 1 and err.count("\n") == 1
    assert "numformer train --preset sums --out runs/sums`, and add --from runs/sums" in err
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("flags, words", [
    (["--samples", "1"], "samples=1; use 2 or more"),
    (["--baseline", "median"], "baseline"),
    (["--context-length", "15"], "have up to 16 tokens")])
def test_bad_options_are_refused(flags, words, capsys, tmp_path):
    status, _, err = call(capsys, "train", "--preset", "sums-grpo", "--out", tmp_path / "r", *flags)
    assert status in (1, 2) and words in err and err.count("\n") == 1


def test_rounds_of_several_updates_resume_to_the_byte(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(Sums, "reward", lambda rule, prompt, answer: len(answer) % 2)
    argv = ["train", *tiny_flags("sums-grpo"), *start_flags("sums-grpo", tmp_path), *MANY]
    one, other = tmp_path / "one" / "r", tmp_path / "other" / "r"
    assert call(capsys, *argv, "--out", one)[0] == 0
    assert call(capsys, *argv, "--out", other, "--stop-at", 3, "--threads", 1)[0] == 0
    assert call(capsys, "train", "--resume", "--out", other)[0] == 0
    assert content(one) == content(other)
    lines = [json.loads(line) for line in (one / "metrics.jsonl").read_text().splitlines()]
    facts = [line["facts"] for line in lines if "facts" in line]
    assert len(facts) == 4 and facts[0]["kl"] == 0 < facts[-1]["kl"]   # the reference at first
    assert all(each.keys() == {"reward", "length", "ended", "differing", "kl", "clipped"}
               for each in facts)
    assert any(each["clipped"] > 0 for each in facts)
    model, _, found, _ = load_run(one)
    assert (model.beta, model.normalization) == (0.1, "sequence")
    assert found["teacher"]["run"] == str(tmp_path / "start")


@pytest.mark.slow
def test_a_run_goes_on_from_a_run_of_rewards(capsys, tmp_path):
    argv = ["train", *tiny_flags("sums-expert")]
    start = start_flags("sums-expert", tmp_path)
    assert call(capsys, *argv, *start, "--out", tmp_path / "a")[0] == 0
    assert call(capsys, "train", *tiny_flags("sums-grpo"), "--from", tmp_path / "a", "--out",
                tmp_path / "b")[0] == 0
    learned = [load_run(tmp_path / name)[3].recipe.baseline for name in "ab"]
    assert learned == ["none", "group"]               # as each preset says
    status, _, err = call(capsys, *argv, "--preset", "carry-grpo", "--from", tmp_path / "a",
                          "--out", tmp_path / "c")
    assert status == 2 and "give a teacher trained on carry or carry-rewards" in err


def test_methods_differ_in_the_baseline():
    rewards = np.array([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    A = {name: advantages_of(rewards, name) for name in ("group", "group-mean", "mean", "none")}
    assert A["none"].tolist() == rewards.tolist()
    assert A["mean"][0].tolist() == [0.375, -0.625, -0.625, -0.625]
    assert A["group-mean"][0].tolist() == [0.75, -0.25, -0.25, -0.25]
    assert A["group"][0, 0] == pytest.approx(3**0.5, rel=1e-3) and not A["group"][1].any()


@pytest.mark.slow
def test_sums_are_learned_from_rewards_and_not_from_imitation(capsys, tmp_path):
    """The claims of both presets, with one seed."""
    from numformer.commands.eval import evaluated

    sums, grpo = tmp_path / "sums", tmp_path / "grpo"
    assert call(capsys, "train", "--preset", "sums", "--seed", 1, "--out", sums)[0] == 0
    assert call(capsys, "train", "--preset", "sums-grpo", "--seed", 1, "--from", sums, "--out",
                grpo)[0] == 0
    before, after = (evaluated(folder)[0] for folder in (sums, grpo))
    assert PRESETS["sums"].claims[0].holds(before, {})
    assert all(claim.holds(after, {"sums": before[claim.figure]})
               for claim in PRESETS["sums-grpo"].claims_from["sums"])
