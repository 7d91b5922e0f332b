"""A run that diverges ends in the same line for all presets: what is not finite, and advice."""

import json
import re

import pytest

from command import call
from marks import slow_among
from numformer.recipes import PRESETS
from tiny_presets import start_flags, tiny_flags

LINE = re.compile(r"numformer: step \d+: (.*); begin anew with a lower learning rate\. The last "
                  r"checkpoint is kept in .*; choose another --out\.")
QUICK = ("tiny", "lstm", "seq2seq", "vit", "detr")
TRAINED = [name for name, preset in PRESETS.items() if "learning_rate" not in preset.task.unused]


def diverged(capsys, out, preset, rate, *argv):
    """(exit status, what the line says is not finite, or None) of a short run."""
    status, _, err = call(capsys, "train", "--preset", preset, *argv, "--learning-rate", rate,
                          "--steps", 5, "--eval-every", 2, "--warmup-steps", 0, "--shards", 2,
                          "--out", out)
    found = LINE.fullmatch(err.strip().splitlines()[-1])
    return status, found and found[1]


@pytest.mark.parametrize("preset", slow_among(QUICK, ["seq2seq"]))
def test_a_diverging_run_says_what_is_not_finite(capsys, tmp_path, preset, text):
    argv = tiny_flags(preset)
    argv += ["--data", text] if preset in ("tiny", "lstm") else []
    status, what = diverged(capsys, tmp_path / "run", preset, "1e30", *argv)
    assert status == 1 and re.search("holds (nan|-?inf) at|, so the perplexity", what)
    assert not (tmp_path / "run" / "best.safetensors").exists(), "no loss of 1e30 is the best"


@pytest.mark.slow
@pytest.mark.parametrize("rate", ["1e30", "1e3"])
@pytest.mark.parametrize("preset", TRAINED)
def test_every_preset_ends_alike(capsys, tmp_path, preset, rate):
    """With 1e3 a bounded loss may stay finite; then the run ends as any other. So does one that
    has nothing to learn: whose rewards do not differ in any group of answers."""
    status, what = diverged(capsys, tmp_path / "run", preset, rate, "--batch-size", 10,
                            "--eval-blocks", 2, *start_flags(preset, tmp_path))
    lines = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    of_rounds = [line["facts"] for line in lines if "facts" in line]
    nothing_to_learn = of_rounds and not any(facts.get("differing", 1) for facts in of_rounds)
    assert (status == 1 and what) or ((rate == "1e3" or nothing_to_learn) and status == 0)
