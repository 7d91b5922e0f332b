"""What the tests of the command line share: texts, settings, a call, processes, small pictures."""

import io
import json
import time
from unittest import mock

import pytest

from numformer.cli import main
from numformer.commands import train
from numformer.commands.shared import output
from numformer.files import write_atomically

TEXT = "the quick brown fox jumps over the lazy dog, and\nthe dog sleeps on.\n" * 60
SMALL = ["--n-layers", "1", "--n-heads", "2", "--d-model", "16", "--context-length", "16",
         "--batch-size", "4", "--warmup-steps", "2"]
SECONDS = 60                                          # until something has gone wrong
# The first lines of a program whose signals are as a terminal's, whatever the tests ignore
DEFAULT_SIGNALS = ("import signal\nfor name in ('SIGINT', 'SIGTERM', 'SIGHUP'):\n"
                   "    signal.signal(getattr(signal, name), signal.SIG_DFL)\n")


def call(capsys, *argv):
    """(exit status, stdout, stderr) of a verb."""
    try:
        status = main([str(word) for word in argv])
    except SystemExit as exit:
        status = exit.code
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return status, out, err


def last_json(out):
    return json.loads(out.rstrip("\n").splitlines()[-1])


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def waited_for(condition):
    """The first result of `condition` that is true."""
    end = time.monotonic() + SECONDS
    while not (found := condition()):
        assert time.monotonic() < end, "nothing happens"
        time.sleep(0.02)
    return found


def is_alive(pid):
    """Whether a process runs (Linux); one that has ended and waits for its parent does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def saved_small(picture, path):
    """A tenth of the time of `save_picture`; the same picture gives the same bytes, too."""
    data = io.BytesIO()
    picture.figure.set_layout_engine("none")
    picture.figure.savefig(data, format=path.suffix[1:], dpi=10, metadata={"Software": None})
    write_atomically(path, data.getvalue())


def drawn_small(*arguments, draw=train.draw_pictures):
    with mock.patch.object(output, "save_picture", saved_small):
        return draw(*arguments)


@pytest.fixture(autouse=True, scope="module")
def small_pictures():
    """In tests whose subject is no picture a training draws its own small, without a layout."""
    with mock.patch.object(train, "draw_pictures", drawn_small):
        yield
