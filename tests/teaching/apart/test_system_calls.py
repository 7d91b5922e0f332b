"""The filter refuses what it names and nothing else, on both machines; this one runs it."""

import ctypes
import errno
import os
import resource
import signal
import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest

from filters import refuses_calls
from numformer.teaching.apart import system_calls
from numformer.teaching.apart.system_calls import (
    ALLOW, EQUAL, AT_LEAST, FOR_OTHERS, LOAD, MACHINE, MACHINES, NUMBER, REFUSE, REFUSED, RETURN,
    WITH, X32, program, refuse_calls)
from numformer.teaching.isolation import Child

RUNS = pytest.mark.skipif(not refuses_calls(), reason="needs Linux on x86_64 or aarch64")
COLUMNS = list(enumerate(MACHINES))


def answer(machine, number, *arguments, of=None):
    """What the filter of a machine says to a call: its instructions, one by one."""
    words = {MACHINE: MACHINES[of or machine], NUMBER: number,
             **{16 + 8 * n: x for n, x in enumerate((*arguments, *[0] * (6 - len(arguments))))}}
    instructions, at, loaded = program(machine), 0, None
    while True:
        code, if_true, if_false, k = instructions[at]
        at += 1
        if code == RETURN:
            return k
        if code == LOAD:
            loaded = words[k]
        else:
            at += if_true if {EQUAL: loaded == k, AT_LEAST: loaded >= k}[code] else if_false


@pytest.mark.parametrize("column, machine", COLUMNS)
def test_each_call_is_refused_and_its_neighbours_are_not(column, machine):
    named = {numbers[column] for numbers in REFUSED.values()} - {None}
    others = {numbers[column] for numbers in FOR_OTHERS.values()}
    asked = {numbers[column]: (n, values) for numbers, n, values in WITH.values()}
    assert not named & others and not named & set(asked) and not others & set(asked)
    for number in range(500):
        assert answer(machine, number) == (REFUSE if number in named else ALLOW), number
        assert answer(machine, number, 7) == (
            REFUSE if number in named | others else ALLOW), number
    for number, (n, values) in asked.items():
        for value in values:
            assert answer(machine, number, *[0] * n, value) == REFUSE
            assert answer(machine, number, *[0] * n, value + 7) == ALLOW


@pytest.mark.parametrize("column, machine", COLUMNS)
def test_calls_of_another_machine_are_refused(column, machine):
    other, = set(MACHINES) - {machine}
    assert answer(machine, 0, of=other) == REFUSE and answer(machine, X32) == REFUSE


@pytest.mark.parametrize("machine", MACHINES)
def test_steps_fit_into_a_byte_and_stay_inside(machine):
    found = program(machine)
    for n, (code, *steps, k) in enumerate(found):
        assert k < 2 ** 32 and max(steps) < 256
        assert code == RETURN or n + 1 + max(steps) < len(found)


def filtered(*steps):
    """What a process with the filter answers to each step: its error, or its result."""
    def tried():
        assert refuse_calls()
        found = []
        for step in steps:
            try:
                found.append(str(step()))
            except Exception as error:
                found.append(errno.errorcode.get(getattr(error, "errno", None), repr(error)))
        return {"found": found}
    with Child(SimpleNamespace(tried=tried)) as child:
        return child.ask(60, "tried")["found"]


@RUNS
def test_what_goes_past_files_is_refused(tmp_path):
    file, parent = tmp_path / "file", os.getpid()
    file.write_text("")
    library = ctypes.CDLL(None)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = filtered(
        lambda: file.chmod(0o600), lambda: os.utime(file, (1, 1)),
        lambda: os.chown(file, os.getuid(), os.getgid()), lambda: os.setpriority(0, 0, 19),
        lambda: resource.prlimit(parent, resource.RLIMIT_NOFILE, (soft, hard)),
        lambda: os.sched_setaffinity(parent, os.sched_getaffinity(parent)),
        lambda: socket.socket(socket.AF_UNIX))
    assert found == ["EPERM"] * len(found)
    assert filtered(lambda: library.shmget(0, 4096, 0o600)) == ["-1"]


@RUNS
def test_what_programs_do_goes_on(tmp_path):
    def ends_its_own():
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        child.kill()
        return child.wait()
    found = filtered(
        lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)), ends_its_own,
        lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)),
        lambda: [end.close() for end in socket.socketpair()] and None,
        lambda: (tmp_path / "file").write_text("abc"),
        lambda: subprocess.run([sys.executable, "-c", "import numpy; print(3)"], check=True,
                               capture_output=True).stdout.decode().strip())
    assert found == ["None", str(-signal.SIGKILL), "None", "None", "3", "3"]


def test_a_system_that_cannot_says_so(monkeypatch):
    monkeypatch.setattr(system_calls.platform, "machine", lambda: "riscv64")
    assert not refuse_calls()
    monkeypatch.undo()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not refuse_calls()
