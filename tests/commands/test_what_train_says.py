"""What a training says at its beginning and its end, and what tables list."""

import re
from types import SimpleNamespace

import pytest

from command import SMALL, call
from numformer.commands.shared import output
from numformer.plots import PICTURES
from numformer.recipes.results import measured_minutes


def test_a_training_says_what_it_trains_and_ends_with_what_there_is_to_see(capsys, text, tmp_path):
    out = tmp_path / "r"
    status, said, err = call(capsys, "train", "--data", text, "--out", out, "--steps", 3,
                             "--snapshots", 2, *SMALL)
    first, second = re.findall("^(?:tiny|fox).*", err, re.MULTILINE)
    assert status == 0
    assert re.fullmatch(r"tiny: Decoder, [\d,]+ parameters \(n_layers=1, n_heads=2, d_model=16\)",
                        first)
    assert re.match(r"fox\.txt: 4,080 characters; validation on 407 targets; run ", second)
    assert re.search(r"\nstep 3: loss [\d.]+, validation [\d.]+ \([\d.]+ bits/character\), ", err)
    assert "\n  sample: " in err
    end, _, commands = said.partition("\nNext:\n")
    assert end.startswith("finished at step 3: validation loss ") and "\n  best " in end
    assert "pictures: loss.png, attention.png" in end
    assert [line.split()[1] for line in commands.splitlines()] == [
        "sample", "eval", "plot", "explore", "replay"]


def test_a_model_without_attention_has_none_to_look_at(capsys, text, tmp_path):
    sizes = ["--n-layers", 1, "--d-model", 8, "--context-length", 8, "--batch-size", 2,
             "--warmup-steps", 1, "--steps", 2, "--eval-blocks", 2]
    status, said, _ = call(capsys, "train", "--preset", "lstm", "--data", text, "--out",
                           tmp_path / "r", *sizes)
    assert status == 0
    assert [line.split()[1] for line in said.partition("\nNext:\n")[2].splitlines()] == [
        "sample", "eval"]


@pytest.mark.parametrize("steps, told", [(1030, ["1,001 steps take about 2 minutes"]), (100, [])])
def test_the_time_is_told_once_after_some_seconds_and_only_if_it_is_long(steps, told):
    trainer = SimpleNamespace(step=0, seconds=60.0, n_targets=0,          # the first one compiles
                              config=SimpleNamespace(steps=steps))
    progress, said = output.Progress(trainer, None, None), []
    progress.write = said.append
    for step in range(9, 60):
        trainer.step, trainer.seconds = step, 60 + 0.1 * (step - 9)
        progress.stepped({"loss": 1.0})
    progress.close()
    assert said == told


def test_plot_and_experiment_alone_are_tables(capsys):
    for verb, names in (("plot", PICTURES), ("experiment", ["three-ways"])):
        status, said, _ = call(capsys, verb)
        assert status == 0 and max(map(len, said.splitlines())) <= 80
        listed = {line.split()[0] for line in said.splitlines() if not line.startswith(" ")}
        assert set(names) <= listed
    assert re.search(rf"^three-ways +{measured_minutes()['three-ways']:.1f} ", said, re.MULTILINE)
    status, _, err = call(capsys, "plot", "loss")
    assert status == 2 and err == "numformer: plot: loss of which run? Give its folder.\n"
