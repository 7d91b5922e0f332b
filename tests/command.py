"""What the tests of the command line share: a small text, small settings, and a call."""

import json

from numformer.cli import main

TEXT = "the quick brown fox jumps over the lazy dog, and\nthe dog sleeps on.\n" * 60
SMALL = ["--n-layers", "1", "--n-heads", "2", "--d-model", "16", "--context-length", "16",
         "--batch-size", "4", "--warmup-steps", "2"]


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
