"""A full disk: each verb that writes says what could not be written, and leaves nothing half."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from command import call
from numformer.commands import figures
from numformer.data import BytePairTokenizer
from numformer.interop import save
from numformer.models import Decoder, DecoderConfig

FULL = os.strerror(errno.ENOSPC)
OPEN = open


class Disk:
    """Files below a folder may hold so many writes in all; then the disk is full."""

    def __init__(self, folder, writes):
        self.folder, self.left = str(folder), writes

    def open(self, path, mode="r", *arguments, **options):
        file = OPEN(path, mode, *arguments, **options)
        if not set(mode) & set("wax+") or not str(path).startswith(self.folder):
            return file
        write = file.write

        def counted(data):
            if self.left <= 0:
                raise OSError(errno.ENOSPC, FULL)
            self.left -= 1
            return write(data)
        return Proxy(file, counted)


class Proxy:
    def __init__(self, file, write):
        self.file, self.write = file, write

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published") / "gpt"
    save(Decoder(DecoderConfig(vocab_size=5, context_length=4, n_layers=1, n_heads=1, d_model=4),
                 np.random.default_rng(0)), None, folder, family="gpt2")
    return folder


VERBS = {
    "exercises": ["exercises", "7", "--out", "OUT"],
    "exercises, notebook": ["exercises", "7", "--out", "OUT", "--notebook", "otter"],
    "exercises, students": ["exercises", "7", "--students", "OUT/class"],
    "export": ["export", "RUN", "--out", "OUT/model", "--no-tokenizer"],
    "figures": ["figures", "sinusoids", "--out", "OUT/figures"],
    "figures, gif": ["figures", "tiles", "--out", "OUT/figures"],
    "explore": ["explore", "RUN", "--out", "OUT/page.html"],
    "plot": ["plot", "loss", "RUN", "--out", "OUT/loss.png"],
    "draw": ["draw", "gpt", "--out", "OUT/gpt.png"],
    "grade": ["grade", "FOLDER", "--csv", "OUT/grades.csv"],
}
SLOW = {"figures, gif", "explore", "grade", "draw"}


@pytest.mark.parametrize("verb", [
    pytest.param(verb, marks=[pytest.mark.slow] * (verb in SLOW)) for verb in VERBS])
@pytest.mark.parametrize("writes", [0, 1])
def test_a_full_disk(capsys, tmp_path, run, monkeypatch, verb, writes):
    out, folder = tmp_path / "disk", tmp_path / "student"
    out.mkdir()
    if "FOLDER" in VERBS[verb]:
        assert call(capsys, "exercises", "1", "--out", tmp_path)[0] == 0
    words = [word.replace("OUT", str(out)).replace("RUN", str(run)).replace("FOLDER", str(folder))
             for word in VERBS[verb]]
    disk = Disk(out, writes)
    with monkeypatch.context() as patch:
        for module in ("builtins", "io"):
            patch.setattr(f"{module}.open", disk.open)
        status, _, err = call(capsys, *words)
    if status == 0:
        assert writes and disk.left == 0, "one write was enough"
        return
    lines = [line for line in err.splitlines() if line.startswith("numformer:")]
    assert status == 1 and len(lines) == 1 and FULL in lines[0]
    assert lines[0].startswith(f"numformer: {out}"), "the path"
    assert list(out.iterdir()) == [], "nothing is left"
    assert call(capsys, *words)[0] == 0, "with more space the same command works"


@pytest.mark.parametrize("function", ["save_checkpoint", "RunFolder.describe"])
def test_an_import_that_cannot_be_written_can_be_tried_again(function, tmp_path, run, monkeypatch,
                                                             capsys):
    from numformer.commands.published import import_folder
    from numformer.runs import RunFolder

    def full(*_):
        raise OSError(errno.ENOSPC, FULL, str(tmp_path / "imported" / "file"))
    source = BytePairTokenizer.of("the lazy dog", 5, split="gpt2")
    config = DecoderConfig(vocab_size=len(source), context_length=4, n_layers=1, n_heads=1,
                           d_model=4)
    save(Decoder(config, np.random.default_rng(0)), source, tmp_path / "model", "gpt2")
    words = ["import", tmp_path / "model", "--out", tmp_path / "imported"]
    with monkeypatch.context() as patch:
        patch.setattr(*((import_folder, function) if "." not in function else
                        (RunFolder, "describe")), full)
        status, _, err = call(capsys, *words)
    assert status == 1 and FULL in err
    assert not list((tmp_path / "imported").glob("[!.]*"))
    assert call(capsys, *words)[0] == 0


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("error", [KeyboardInterrupt("resume from RUN"), OSError("RUN is intact")])
def test_figures_that_end_early_name_no_run_that_is_gone(capsys, tmp_path, monkeypatch, kept,
                                                         error):
    def train(argv):
        Path(argv[-1], "file").write_text("")
        try:
            raise OSError(errno.ENOSPC, FULL)
        except OSError:
            raise error from None
    monkeypatch.setattr(figures.train, "run_with", train)
    runs = ["--runs", tmp_path / "runs"] if kept else []
    status, out, err = call(capsys, "figures", "attention", "--out", tmp_path / "pictures", *runs)
    assert "RUN" not in err and not list(tmp_path.iterdir())
    if isinstance(error, KeyboardInterrupt):
        assert (status, err) == (130, "numformer: stopped\n")
    else:
        assert status == 1 and err.endswith(f"tiny: {FULL}\n")


def test_a_training_that_is_not_kept_leaves_signals_to_the_verb():
    import signal

    from numformer.commands.shared.process import ending_at_once, stop_signals

    before = signal.getsignal(signal.SIGTERM)
    with ending_at_once(), stop_signals():
        assert signal.getsignal(signal.SIGTERM) == before
    with stop_signals():
        assert signal.getsignal(signal.SIGTERM) != before
