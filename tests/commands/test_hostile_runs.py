"""A checkpoint with a right checksum may ask for anything: one line, before anything is built."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from command import SMALL, TEXT, call
from numformer.commands.shared import memory
from numformer.commands import UsageError
from numformer.models import DecoderConfig
from numformer.parameter import Parameter
from numformer.runs import check_arrays, load_checkpoint, save_checkpoint
from numformer.terminal import show_text
from numformer.training import TrainingConfig


def config(**options):
    return lambda arrays, facts: facts["model"]["config"].update(options)


def part(name, /, **options):
    return lambda arrays, facts: facts[name].update(options)


def doubling(arrays, facts):
    merges = [[97, 97], *([256 + k, 256 + k] for k in range(60))]
    facts["tokenizer"] = {"kind": "byte_pairs", "special": [], "merges": merges}


HOSTILE = [
    (config(n_layers=10**9), "n_layers=1000000000 must be a whole number, 1 to 131072"),
    (config(n_layers=60_000), "n_layers=60000 is too large for a model of at most"),
    (config(d_model=10**8), "d_model=100000000, but there are"),
    (config(d_hidden=10**8), "d_hidden=100000000, but there are"),
    (config(vocab_size=10**9), "its model has vocab_size=1000000000, but its data"),
    (config(context_length=10**12), "context_length=1000000000000, but there are"),
    (config(d_model=10**30), "must be int"), (config(d_model=True), "d_model=True must be int"),
    (config(d_model="16"), "d_model='16' must be int"), (config(d_model=16.0), "must be int"),
    (config(d_model=-16), "d_model=-16 must be a whole number"),
    (config(norm=["layer_norm"]), "must be str"), (config(tied=1), "tied=1 must be bool"),
    (config(dropout=None), "dropout=None must be float"), (config(colour=1), "colour"),
    (part("training", shards=10**7), "shards=10000000 must be a whole number, 1 to 4096"),
    (part("training", shards=65), "shards=65 must be at most batch_size=4"),
    (part("training", batch_size=True), "batch_size=True must be int"),
    (part("training", steps=10**30), "must be int"),
    (part("training", learning_rate="high"), "learning_rate='high' must be float"),
    (part("recipe", label_smoothing=[]), "label_smoothing=[] must be float"),
    (part("progress", step=10**30), "must be at most steps=30"),
    (part("progress", step=31), "step=31 must be at most steps=30"),
    (part("progress", step=-1), "step=-1"), (part("progress", step="30"), "step='30'"),
    (part("progress", worse=None), "worse=None"), (part("progress", best_loss="1"), "best_loss"),
    (part("progress", evaluated_at=40), "a validation is later than step=30"),
    (part("progress", other=1), "progress must hold"),
    (part("data", sha256="0"), "must be 64 digits"), (part("data", name=None), "data.name is None"),
    (part("data", argument=False), "data.argument is False"),
    (part("data", argument=None), "data.argument is null, but must name the text of the run"),
    (part("data", characters=1.5), "characters=1.5"), (part("data", other=1), "not ['other']"),
    (lambda arrays, facts: facts.update(colour="\x1b[2J"), "not ['colour']"),
    (lambda arrays, facts: facts.update(before={"x": "\x1b"}), "before.x is '\\x1b'"),
    (lambda arrays, facts: facts.update(tokenizer={"kind": "characters", "characters": "ab"}),
     "vocab_size"),
    (doubling, "makes a token of 128 bytes, but words have at most 64"),
    (lambda arrays, facts: arrays.update({"other\x1b[2J": np.zeros(2)}), "unexpected: other\\x1b"),
    (lambda arrays, facts: arrays.update({"model.norm.weight": np.zeros(2**21)}), "shape (2097152"),
]


@pytest.mark.parametrize("change, words", HOSTILE)
def test_hostile_facts_are_one_line_before_anything_is_built(capsys, run, tmp_path, monkeypatch,
                                                             change, words):
    arrays, facts = load_checkpoint(run / "checkpoint.safetensors")
    change(arrays, facts)
    save_checkpoint(tmp_path / "checkpoint.safetensors", arrays, facts)

    def built(self, data):
        assert data.strides == (0,) * data.ndim or data.size < 10**6, "built for its values"
        self.data = data

    monkeypatch.setattr(Parameter, "__init__", built)
    for argv in (["eval", tmp_path], ["train", "--resume", "--out", tmp_path]):
        status, out, err = call(capsys, *argv)
        assert status == 1 and words in err and len(err.splitlines()) == 1 and not out


@pytest.mark.parametrize("name", ["checkpoint.safetensors", "metrics.jsonl"])
@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no devices")
def test_a_device_in_a_run_is_one_line(capsys, run, tmp_path, name):
    out = tmp_path / "r"
    shutil.copytree(run, out)
    (out / name).unlink()
    (out / name).symlink_to("/dev/zero")
    status, _, err = call(capsys, "train", "--resume", "--out", out)
    assert status == 1 and "must be a regular file, but is a device" in err
    assert len(err.splitlines()) == 1


def test_a_header_that_promises_much_is_refused_unread(tmp_path):
    with open(tmp_path / "c", "wb") as file:
        file.write((2**40).to_bytes(8, "little"))
        file.truncate(2**35)                                          # 32 GiB that take no space
    with pytest.raises(Exception, match="its header would have 1099511627776 bytes"):
        load_checkpoint(tmp_path / "c")


def test_the_arrays_of_every_size_are_compared(run):
    arrays, facts = load_checkpoint(run / "checkpoint.safetensors")
    right = DecoderConfig.from_dict(facts["model"]["config"])
    check_arrays("Decoder", right, arrays)


@pytest.mark.parametrize("sizes, words", [
    (dict(d_model=10**9, n_heads=1), "d_model=1000000000"),
    pytest.param(dict(n_layers=9000), "n_layers=9000", marks=pytest.mark.slow),
    (dict(d_hidden=10**12), "d_hidden=1000000000000"),
    (dict(context_length=10**12), "context_length=1000000000000"),
    (dict(vocab_size=10**12), "vocab_size=1000000000000")])
def test_a_model_that_cannot_fit_is_refused_before_it_is_built(monkeypatch, sizes, words):
    monkeypatch.setattr(memory, "physical_memory", lambda: 2**34)
    options = dict(vocab_size=65, context_length=8, n_layers=2, n_heads=2, d_model=16)
    config = DecoderConfig(**{**options, **sizes})
    words += (" is too large for a model of at most 131072 arrays with 1.43e\\+09 numbers; choose "
              "a smaller one. In training a number takes at least 12 bytes, but this machine has "
              "16 ")
    with pytest.raises(UsageError, match=words):
        memory.check_memory("Decoder", config, TrainingConfig(steps=1), 8)


def test_a_batch_that_cannot_fit_is_refused(capsys, text, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "physical_memory", lambda: 2**34)
    for flags, words in ((["--batch-size", 10**10], "batch_size=10000000000 must be a whole"),
                         (["--batch-size", 10**6, "--d-model", 4096, "--context-length", 4096],
                          "a batch has"),
                         (["--accumulation", 10**6, "--batch-size", 10**6], "a step has"),
                         (["--accumulation", 10**14], "accumulation=100000000000000 must be")):
        status, _, err = call(capsys, "train", "--data", text, "--out", tmp_path / "r", *SMALL,
                              *flags)
        assert status == 2 and words in err and not (tmp_path / "r").exists()


class Terminal:
    encoding = "utf-8"

    def __init__(self, is_terminal):
        self.is_terminal, self.text = is_terminal, ""

    def isatty(self):
        return self.is_terminal

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_a_generated_control_character_reaches_a_file_but_no_terminal():
    for is_terminal, shown in ((True, "a\\x1b[2J\n\tb"), (False, "a\x1b[2J\n\tb")):
        stream = Terminal(is_terminal)
        show_text("a\x1b[2J\n\tb", stream)
        assert stream.text == shown


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="file names of any bytes")
def test_a_run_may_have_any_name(tmp_path):
    """Bytes that are no UTF-8, control characters, and an output that knows ASCII alone."""
    run, text = tmp_path / "r\udcff\x1b[2J é\u202e'\n$HOME", tmp_path / "t\udcfe\x1b[1m.txt"
    text.write_text(TEXT)
    for argv in (["train", "--preset", "gpt", "--data", text, "--out", run, "--steps", "4",
                  "--stop-at", "2", "--threads", "1", *SMALL],
                 ["train", "--resume", "--out", run], ["eval", run],
                 ["sample", run, "--tokens", "3"], ["count", run], ["plot", "attention", run],
                 ["explore", run, "--text", "the dog"], ["compare", run, "--seconds", "0"]):
        ended = subprocess.run([sys.executable, "-m", "numformer", *argv], capture_output=True,
                               env={**os.environ, "PYTHONIOENCODING": "ascii"})
        assert ended.returncode == 0, (argv, ended.stderr)
        shown = ended.stdout + ended.stderr
        assert not [byte for byte in shown if byte < 32 and byte not in b"\n\t"], (argv, shown)
