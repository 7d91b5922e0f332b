"""A process that may use too little memory says so, before a library aborts it."""

import pytest

from command import call
from numformer.commands.shared import process

resource = pytest.importorskip("resource")
NONE = resource.RLIM_INFINITY


@pytest.fixture
def limited(monkeypatch):
    def set_to(**bytes_of):
        monkeypatch.setattr(process.os, "cpu_count", lambda: 2)
        monkeypatch.setattr(process.resource, "getrlimit", lambda kind: (
            next((bytes_of[name] for name in bytes_of if getattr(resource, name) == kind), NONE),
            NONE))
    return set_to


@pytest.mark.parametrize("given, words", [
    (dict(RLIMIT_AS=300 * 2**20), "this process may use 300 MiB of memory (ulimit -v), but needs "
     "1 GiB at least; raise the limit, as with: ulimit -v 1048576"),
    (dict(RLIMIT_STACK=2**16), "this process may use 64 KiB of its stack (ulimit -s), but needs 1 "
     "MiB at least; raise the limit, as with: ulimit -s 1024")])
def test_too_little_is_one_line(limited, capsys, given, words):
    limited(**given)
    assert call(capsys, "count", "gpt2") == (2, "", f"numformer: {words}\n")


def test_enough_is_enough(limited, capsys):
    limited(RLIMIT_AS=2**30, RLIMIT_STACK=2**23)
    assert call(capsys, "count", "gpt2")[0] == 0


def test_help_needs_no_memory(limited, capsys):
    limited(RLIMIT_AS=2**20)
    assert call(capsys, "--help")[0] == 0
