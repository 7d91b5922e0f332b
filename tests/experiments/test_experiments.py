"""Every experiment: measured with a few steps, its figures are those that its claims name, and it
draws; the verbs that run it."""

import json
import math

import pytest

from command import call
from marks import slow_among
from numformer.experiments import EXPERIMENTS, Experiment, Outcome, trained, trainer_of
from numformer.plots.axes import new_axes
from numformer.recipes import PRESETS, Claim

FEW = 2                                                               # steps
# These measure several models, or read far more than they train on
LONG = ("length-extrapolation", "pronouns", "efficient-attention", "sentence-objectives",
        "scaling-law", "slips", "three-families", "batch-norm", "three-ways", "few-shot",
        "induction-heads", "skip-connections", "operations-to-loss", "answer-retrieval",
        "domain-adaptation", "recurrent-gradients", "word-senses")


def half(seed, steps=None):
    return Outcome({"half": seed / 2, "steps": steps or 5}, lambda: new_axes((3, 2)), "a table")


HALF = Experiment("What is the half of a seed?", half, (Claim("half", 1.0),))


@pytest.mark.parametrize("name", slow_among(EXPERIMENTS, LONG))
def test_an_experiment_returns_the_figures_of_its_claims_and_draws_them(name):
    experiment = EXPERIMENTS[name]
    outcome = experiment.measure(1, FEW)
    assert all(isinstance(value, float | int) and math.isfinite(value)
               for value in outcome.figures.values())
    assert experiment.claims and experiment.question.endswith("?")
    for claim in experiment.claims:
        assert {claim.figure, *([claim.beats] if claim.beats else [])} <= set(outcome.figures)
        assert not claim.ahead_of                                     # all is in one experiment
    assert outcome.picture() is not None


def test_no_experiment_has_the_name_of_a_preset():
    assert not set(EXPERIMENTS) & set(PRESETS)


def test_the_verb_prints_figures_and_draws(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "half", HALF)
    out = tmp_path / "half.png"
    status, printed, _ = call(capsys, "experiment", "half", "--seed", 3, "--out", out, "--json")
    assert status == 0 and out.stat().st_size > 1000
    lines = printed.splitlines()
    assert lines[:3] == ["What is the half of a seed?", "a table", "half: 1.5"]
    assert json.loads(lines[-1]) == {"figures": {"half": 1.5, "steps": 5}, "files": [str(out)]}


def test_the_verb_lists_all_experiments(capsys, monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "half", HALF)
    status, printed, _ = call(capsys, "experiment")
    assert status == 0 and "half " in printed and HALF.question in printed


@pytest.mark.parametrize("words, message", [
    (["hlaf"], "there is no hlaf (did you mean half?)"),
    (["half", "--seed", "-1"], "--seed -1 must be 0 or more"),
    (["half", "--steps", "0"], "--steps 0 must be 1 or more"),
    (["half", "--out", "half.txt"], "half.txt must end in .png"),
])
def test_wrong_usage_of_the_verb_is_one_line(capsys, monkeypatch, words, message):
    monkeypatch.setitem(EXPERIMENTS, "half", HALF)
    status, _, errors = call(capsys, "experiment", *words)
    assert status == 2 and message in " ".join(errors.split())


def test_reproduce_runs_experiments_with_each_seed(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "half", HALF)
    argv = ["reproduce", "half", "--seeds", 3, "--out", tmp_path / "out", "--json"]
    status, printed, _ = call(capsys, *argv)
    (row,) = json.loads(printed.splitlines()[-1])["rows"]
    assert row["each"] == [0.5, 1.0, 1.5] and row["median"] == 1.0 and row["holds"]
    assert status == 0 and (tmp_path / "out" / "half-3" / "half.png").exists()
    monkeypatch.setitem(EXPERIMENTS, "half", HALF._replace(measure=None))    # it is not run again
    assert call(capsys, *argv)[1].splitlines()[-1] == printed.splitlines()[-1]


def test_trained_observes_before_between_and_after():
    trainer, task, tokenizer = trainer_of(
        "tiny", seed=1, steps=5, model=dict(n_layers=1, d_model=16, n_heads=2),
        training=dict(batch_size=2))
    seen = []
    assert trained(trainer, 2, lambda t: seen.append(t.step)).model is trainer.model
    assert seen == [0, 2, 4, 5] and trainer.model.config.d_model == 16
    assert task.tokenizer(task.load(task.default_data)).to_json() == tokenizer.to_json()
