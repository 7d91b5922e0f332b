"""A checkpoint of an older format is refused in one line, by every verb that reads a run."""

import json
import shutil

import pytest
from safetensors.numpy import load_file, save_file

from command import call
from numformer.runs import CheckpointError, load_checkpoint


def rewrite_as_version_1(path):
    """Give a checkpoint the header of the first format."""
    facts = load_checkpoint(path)[1]
    header = json.dumps({"format": "numformer checkpoint, version 1", **facts, "sha256": "0" * 64})
    save_file(load_file(path), path, {"numformer": header})


@pytest.fixture
def old_run(run, tmp_path):
    out = tmp_path / "old"
    shutil.copytree(run, out)
    for path in out.glob("*.safetensors"):
        rewrite_as_version_1(path)
    return out


def test_a_version_1_file_is_named_with_its_version_and_the_cure(old_run):
    path = old_run / "checkpoint.safetensors"
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(path)
    message = str(caught.value)
    assert str(path) in message and "\n" not in message
    assert "version 1 " in message and "train the model anew" in message


@pytest.mark.parametrize("argv", [
    ["eval"], ["sample"], ["count"], ["explore"], ["plot", "training"], ["compare"],
    ["train", "--resume", "--out"], ["train", "--preset", "topics", "--from"]])
def test_every_verb_refuses_an_old_run_in_one_line(capsys, old_run, run, argv):
    status, out, err = call(capsys, *argv, old_run, *([run] if argv == ["compare"] else []))
    assert status == 1 and not out
    assert err.count("\n") == 1 and "version 1 " in err and "train the model anew" in err
