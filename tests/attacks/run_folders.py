"""Run folders with devices, pipes, links, sockets and folders in the place of files.

    python tests/attacks/run_folders.py                 # all, 330: two minutes
    python tests/attacks/run_folders.py 80 1            # a random part

Every verb that reads a run, for every file of it and every kind of thing that is no such file.
"""

import contextlib
import io
import os
import shutil
import socket
import sys
import tempfile
from itertools import product
from pathlib import Path

import numpy as np

from judging import Attacks, Finding, numbers_of_command_line, verb
from mutated_files import SMALL, TEXT
from numformer.cli import main

NAMES = ("checkpoint.safetensors", "best.safetensors", "metrics.jsonl", "config.json", "loss.png")
READERS = {                                           # verb: (arguments, files that it reads)
    "count": (("count", "RUN"), {"checkpoint.safetensors"}),
    "eval": (("eval", "RUN", "--best"), {"best.safetensors"}),
    "sample": (("sample", "RUN", "--tokens", "1"), {"checkpoint.safetensors"}),
    "plot": (("plot", "training", "RUN"), {"checkpoint.safetensors", "metrics.jsonl"}),
    "explore": (("explore", "RUN", "--text", "the dog"), {"checkpoint.safetensors"}),
    "train": (("train", "--resume", "--out", "RUN", "--steps", "4", "--threads", "1"),
              {"checkpoint.safetensors", "metrics.jsonl"}),
}


def zero(path):
    path.symlink_to("/dev/zero")


def full(path):
    path.symlink_to("/dev/full")


def terminal(path):
    path.symlink_to("/dev/tty")


def pipe(path):
    os.mkfifo(path)


def circle(path):
    path.symlink_to(path.name)


def folder(path):
    path.mkdir()
    (path / "inside").write_text("x")


def unix_socket(path):
    with socket.socket(socket.AF_UNIX) as one:
        here = os.getcwd()
        os.chdir(path.parent)                         # names of sockets are short
        one.bind(path.name)
        os.chdir(here)


def sparse(path):
    with open(path, "wb") as file:
        file.truncate(2**37)


def other_file(path):
    path.symlink_to(sys.executable)


def long_line(path):
    path.write_bytes(b"[" * 100_000_000 + b"\n")


def binary(path):
    path.write_bytes(b"\0\xff\n" * 500)


HOSTILE = (zero, full, terminal, pipe, circle, folder, unix_socket, sparse, other_file, long_line,
           binary)


def main_of_attack(count, seed=0, seconds=5.0):
    """Run so many of the attacks; return the exit status."""
    found = list(product(NAMES, HOSTILE, READERS))
    chosen = np.random.default_rng(seed).permutation(len(found))[:count]
    with tempfile.TemporaryDirectory() as place:
        place = Path(place)
        text, run = place / "fox.txt", place / "run"
        text.write_text(TEXT)
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            assert main(["train", "--data", str(text), "--out", str(run), "--steps", "3",
                         "--eval-every", "1", "--threads", "1", "--preset", "gpt", *SMALL]) == 0
        attacks = Attacks(seconds)
        for name, make, reader in (found[i] for i in sorted(chosen)):
            attacks.attempt(f"{reader} {name} {make.__name__}",
                            lambda: _read(run, place / "copy", name, make, reader))
        return attacks.report()


def _read(run, copy, name, make, reader):
    """Refused if the verb reads that file; otherwise its work is done."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(run, copy)
    (copy / name).unlink()
    make(copy / name)
    argv, reads = READERS[reader]
    how = verb(*(str(copy) if word == "RUN" else word for word in argv))
    if name in reads and how != "refused":
        raise Finding("accepted")
    if name in reads and name != "metrics.jsonl" and how == "refused":
        assert os.path.lexists(copy / name), "what a user may need is still there"
    return how


if __name__ == "__main__":
    sys.exit(main_of_attack(*numbers_of_command_line(len(NAMES) * len(HOSTILE) * len(READERS))))
