"""Every experiment: measured with a few steps, its figures are those that its claims name, and it
draws; the verbs that run it."""

import json
import math
import re
import statistics
from pathlib import Path

import pytest

from command import call
from numformer.experiments import EXPERIMENTS, Experiment, Outcome, trained, trainer_of
from numformer.plots.axes import new_axes, slides
from numformer.plots.style import smallest_text
from numformer import recipes
from numformer.recipes import PRESETS, Claim, all_claims
from numformer.recipes.preset import more

FEW = 2                                                               # steps


def half(seed, steps=None):
    return Outcome({"half": seed / 2, "steps": steps or 5}, lambda: new_axes((3, 2)), "a table")


CLAIMS = all_claims(PRESETS) | {name: each.claims for name, each in EXPERIMENTS.items()}
HALF = Experiment("What is the half of a seed?", half, (Claim("half", 1.0),))


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
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
    with slides():
        figure = outcome.picture().figure
    assert figure.get_size_inches().tolist() == [13.33, 7.5]
    assert smallest_text(figure) > 17.95


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


def test_the_verb_draws_for_slides(capsys, tmp_path, monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "half", HALF)
    out = tmp_path / "half.svg"
    status, _, err = call(capsys, "experiment", "half", "--slides", "--dark", "--out", out)
    assert (status, err) == (0, "")
    assert 'width="959.76pt" height="540pt"' in out.read_text(encoding="utf-8")


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


def compared(seed, steps=None):
    return Outcome({"probe": 0.9 + seed / 100, "nearest": 0.4, "embedding": 0.8, "random": 0.1,
                    "loss": 1.0, "loss_before": 5.0, "loss_of_counts": 2.0},
                   lambda: new_axes((3, 2)))


def test_reproduce_prints_every_baseline_of_a_figure_the_strongest_first(
        capsys, tmp_path, monkeypatch):
    claims = (*(more("probe", beats=name) for name in ("nearest", "embedding", "random")),
              Claim("loss", beats="loss_before"), Claim("loss", 3.0, beats="loss_of_counts"))
    monkeypatch.setitem(EXPERIMENTS, "half", Experiment("Which is best?", compared, claims))
    argv = ["reproduce", "half", "--seeds", 1, "--out", tmp_path, "--json"]
    status, printed, _ = call(capsys, *argv)
    probe, loss = json.loads(printed.splitlines()[-1])["rows"]
    assert status == 0 and list(probe["baselines"]) == ["embedding", "nearest", "random"]
    assert list(loss["baselines"].items()) == [("loss_of_counts", 2.0), ("loss_before", 5.0)]
    assert loss["must_be"] == "better than loss before, at most 3, better than loss of counts"
    assert "| embedding 0.8000, nearest 0.4000, random 0.1000 | yes |" in printed
    monkeypatch.setitem(EXPERIMENTS, "half", Experiment(
        "Which is best?", compared, (*claims, more("probe", 0.99))))
    assert call(capsys, *argv)[0] == 1, "one of four claims about a figure fails, and so the row"


def test_claims_about_one_figure_have_one_direction():
    """`reproduce` sorts the baselines of all of them."""
    for name, own in CLAIMS.items():
        directions = {(claim.figure, claim.more_is_better) for claim in own}
        assert len(directions) == len({figure for figure, _ in directions}), name


def rows_of_the_results():
    """Name of a preset or experiment: its rows on the page of the results."""
    rows = {}
    for line in (Path(recipes.__file__).parent / "RESULTS.md").read_text().split("\n"):
        if line.startswith("| "):
            rows.setdefault(line.split(" | ")[0].strip("| "), []).append(line)
    return rows


@pytest.mark.parametrize("name", CLAIMS)
def test_the_results_name_every_baseline(name):
    rows = rows_of_the_results().get(name, [])
    assert rows or name not in EXPERIMENTS, "an experiment has a row"
    baselines = {claim.beats.replace("_", " ") for claim in CLAIMS[name] if claim.beats}
    baselines |= {other for claim in CLAIMS[name] for other in claim.ahead_of}
    assert not rows or {each for each in baselines if each not in " ".join(rows)} == set()


def written_baselines(row):
    """The median of a row and those of the baselines that it writes down, in their order; None of
    a row without three seeds."""
    cells = row.strip("| ").split(" | ")
    own, *rest = [[float(number) for number in re.findall(r"-?\d+\.\d+", part)] for part in (
        cells[2], *re.findall(r"\((-?\d+\.\d+[^)]*)\)", cells[3].split(";")[0]))]
    return None if len(own) != 3 or len(cells) != 6 else (
        statistics.median(own), [statistics.median(found) for found in rest])


def test_the_results_name_the_strongest_baseline_first():
    found = [baselines for name, rows in rows_of_the_results().items() if name in CLAIMS
             for row in rows if (baselines := written_baselines(row))]
    for own, rest in found:
        distances = [abs(own - baseline) for baseline in rest]
        assert distances == sorted(distances), (own, rest)
    assert sum(len(rest) > 1 for _, rest in found) > 12


def test_a_weak_baseline_that_comes_first_is_found():
    assert written_baselines(
        "| pronouns | probe | 0.97, 0.98, 0.97 | better than nearest (0.41), embedding (0.82, 0.8, "
        "0.9) | yes | - |") == (0.97, [0.41, 0.82])


def test_trained_observes_before_between_and_after():
    trainer, task, tokenizer = trainer_of(
        "tiny", seed=1, steps=5, model=dict(n_layers=1, d_model=16, n_heads=2),
        training=dict(batch_size=2))
    seen = []
    assert trained(trainer, 2, lambda t: seen.append(t.step)).model is trainer.model
    assert seen == [0, 2, 4, 5] and trainer.model.config.d_model == 16
    assert task.tokenizer(task.load(task.default_data)).to_json() == tokenizer.to_json()
