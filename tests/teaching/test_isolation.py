"""Functions that hang, crash or end Python: `check` names what happened, and goes on."""

import ctypes
import os
import random
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from numformer.teaching import check, isolation, limits
from numformer.teaching.calls import Ended
from numformer.teaching.limits import Stopped, limit_process, limited, state_kept

FORK = pytest.mark.skipif(not hasattr(os, "fork") or sys.platform == "darwin",
                          reason="no fork that is safe")
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
TIMER = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
PROCESSES = [pytest.param(True, marks=FORK), False]
STARTS_ANOTHER = """
import subprocess, sys
other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(other.pid, flush=True)
other.wait()
"""
ASKED = isolation.may_fork                 # before the fixture replaces it


def softmax(x):
    p = np.exp(x - x.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def loops(x):
    while True:
        pass


def swallows(x):
    while True:
        try:
            time.sleep(0.01)
        except Exception:
            pass


def grows(x):
    rows = []
    while True:
        rows.append([0.0] * 5_000_000)    # not from memory that the process has left


def allocates(x):
    return np.ones(2 ** 40)


def ends(x):
    sys.exit(3)


def recurses(x):
    return recurses(x)


def raises_much(x):
    raise ValueError("\x1b[2J" + "x" * 10 ** 7)


def ends_at_once(x):
    os._exit(7)


def crashes(x):
    ctypes.string_at(0)


def aborts(x):
    os.abort()


def interrupts(x):
    raise KeyboardInterrupt


def loops_in_c(x):
    return sum(range(10 ** 15))


def asks(x):
    return softmax(x) * float(os.read(0, 9))


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("fn, words", [
    pytest.param(loops, "ran for more than 0.2 s and was stopped in line", marks=TIMER),
    pytest.param(swallows, "ran for more than 0.2 s", marks=TIMER),
    pytest.param(allocates, "needs more than 64 MiB of memory in line", marks=LINUX),
    (ends, "it raised SystemExit: a function must return and not end Python in line"),
    (recurses, "it raised RecursionError"), (raises_much, "it raised ValueError: \\x1b[2Jxxx")])
def test_a_strange_function_is_wrong_and_named(fn, words, process):
    seconds = 0.2 if "0.2" in words else 600
    verdict = check("softmax", fn, seconds=seconds, memory=2 ** 26, process=process)
    assert not verdict and words in verdict.text and len(verdict.text) < 1000
    assert "Level of this problem: plain" in verdict.text


@LINUX
@pytest.mark.parametrize("process", PROCESSES)
def test_a_growing_list_ends_at_the_limit_of_memory(process):
    verdict = check("softmax", grows, seconds=600, memory=2 ** 26, process=process)
    assert "needs more than 64 MiB of memory in line" in verdict.text


@FORK
@pytest.mark.parametrize("fn, words", [
    (ends_at_once, "it ended Python (exit status 7); it must return"),
    (crashes, "it crashed Python (SIGSEGV, as of an endless recursion)"),
    (aborts, "it crashed Python (SIGABRT)"), (interrupts, "it raised KeyboardInterrupt in line"),
    (asks, "it raised ValueError: could not convert")])
def test_what_ends_python_ends_only_its_own_process(fn, words, capfd):
    verdict = check("softmax", fn, process=True)
    assert not verdict and verdict.text.startswith("softmax: " + words)
    assert "Fatal" not in capfd.readouterr().err


@pytest.mark.slow
@FORK
def test_a_loop_inside_a_c_function_is_ended():
    verdict = check("softmax", loops_in_c, seconds=0.2, process=True)
    assert verdict.text == ("softmax: it ran for more than 0.2 s and could not be interrupted.\n"
                            f"seed={verdict.seed}")


@FORK
def test_nothing_of_a_child_is_seen_in_the_parent():
    scale, called = 2.0, []

    def changes(x):
        np.sinc, where = None, called.append(1)
        os.chdir("/"), np.random.seed(0), np.set_printoptions(precision=1)
        np.seterr(divide="raise")
        threading.Thread(target=time.sleep, args=(60,)).start()
        return scale * softmax(x) / 2, where          # a closure works
    before = os.getcwd(), np.random.get_state()[2], np.get_printoptions(), np.geterr()
    threads = threading.active_count()
    verdict = check("softmax", changes, process=True)
    assert verdict and not called and threading.active_count() == threads
    assert before == (os.getcwd(), np.random.get_state()[2], np.get_printoptions(), np.geterr())


@FORK
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")    # since Python 3.12
def test_a_function_that_forks_gives_one_answer(monkeypatch):
    fork, forked = os.fork, []
    monkeypatch.setattr(os, "fork", lambda: forked.append(fork()) or forked[-1])

    def forks(x):
        os.fork()
        return softmax(x)
    verdict = check("softmax", forks, levels=["plain"], process=True)
    assert verdict and verdict.text.startswith("right: softmax on 3")
    with pytest.raises(ProcessLookupError):           # and leaves no process
        os.kill(*forked, 0)
    child = limited(fork, None, None)()               # it does not return twice
    assert os.waitpid(child, 0) == (child, 0)


@pytest.mark.slow
@LINUX
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")    # since Python 3.12
def test_a_judge_starts_no_more_processes_than_its_limit():
    pytest.importorskip("resource")                   # before the user changes, who may not read it

    def forks():
        if not os.getuid():
            os.setuid(65534)                          # root has no such limit
        limit_process(60, processes=15)
        for n in range(300):
            try:
                if not os.fork():
                    time.sleep(60)
                    os._exit(0)
            except OSError:
                return {"n": n}
    with isolation.Child(SimpleNamespace(forks=forks)) as child:
        assert 0 < child.ask(60, "forks")["n"] < 200  # the user may have others that end


@FORK
def test_an_error_of_the_checker_itself_is_raised(monkeypatch):
    with isolation.Child(SimpleNamespace(fails=lambda: 1 / 0)) as child:
        with pytest.raises(Ended, match="could not answer: ZeroDivisionError: division by zero"):
            child.ask(10, "fails")
    monkeypatch.setattr(sys.modules["numformer.teaching.check"], "wrong_output", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        check("softmax", softmax, process=True)


@FORK
def test_the_verdict_of_a_child_is_that_of_this_process():
    def wrong(x):
        return softmax(x) + 1e-3
    first, second = (check("softmax", wrong, seed=3, process=process) for process in (True, False))
    assert first == second and not first


def test_the_same_process_keeps_its_state():
    random.seed(1), np.random.seed(1)
    expected = np.random.RandomState(1).standard_normal()

    def changes(x):
        np.random.seed(0), random.seed(0), np.set_printoptions(precision=1)
        np.seterr(over="raise")
        return softmax(x)
    before = np.get_printoptions(), np.geterr(), random.getstate()
    assert check("softmax", changes, process=False)
    assert before == (np.get_printoptions(), np.geterr(), random.getstate())
    assert np.random.standard_normal() == expected


@TIMER
def test_somebody_elses_alarm_still_rings():
    rung = []
    handler = signal.signal(signal.SIGALRM, lambda *_: rung.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        assert limited(len, 60, None)([1]) == 1
        deadline = time.monotonic() + 300
        while not rung and time.monotonic() < deadline:
            time.sleep(0.01)
        assert rung
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)


def test_in_a_thread_there_is_no_limit_of_time_but_an_answer():
    found = []
    thread = threading.Thread(target=lambda: found.append(check("softmax", softmax, seconds=9)))
    thread.start(), thread.join()
    assert found[0]


def test_the_users_interrupt_is_not_swallowed():
    with pytest.raises(KeyboardInterrupt):
        check("softmax", interrupts, process=False)


def test_without_limits_an_error_is_that_of_the_function():
    assert "it raised MemoryError: 5" in check("softmax", lambda x: raising(MemoryError(5)),
                                               seconds=None, memory=None, process=False).text
    with state_kept(), pytest.raises(ValueError):
        limited(lambda: raising(ValueError("a")), None, None)()


def raising(error):
    raise error


@pytest.mark.parametrize("limits, words", [
    ({"seconds": 0}, "seconds=0"), ({"seconds": "1"}, "seconds='1'"), ({"memory": 0.5}, "memory="),
    ({"memory": 0}, "memory=0"), ({"seconds": 1e300}, "seconds=1e.300")])
def test_limits_that_are_none_are_refused(limits, words):
    with pytest.raises((TypeError, ValueError), match=words):
        check("softmax", softmax, **limits)


def test_a_limit_of_memory_beyond_what_a_system_knows_is_none():
    assert check("softmax", softmax, memory=2 ** 80, process=False)


def test_a_process_is_not_used_where_it_cannot_be(monkeypatch):
    shell = type("Shell", (), {"kernel": None})()
    ipython = type("IPython", (), {"get_ipython": staticmethod(lambda: shell)})
    for name in isolation.NO_FORK:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "fork", lambda: 0, raising=False)
    assert ASKED()
    for name, module in (("IPython", ipython), ("torch", None), ("jax", None)):
        with monkeypatch.context() as inside:
            inside.setitem(sys.modules, name, module)
            assert not ASKED()
    with monkeypatch.context() as inside:
        inside.setattr(sys, "platform", "darwin")
        assert not ASKED()
    monkeypatch.delattr(os, "fork")
    assert not ASKED() and check("softmax", softmax)
    with pytest.raises(ValueError, match="fork"):
        check("softmax", softmax, process=True)


def test_where_nothing_stops_a_loop_a_warning_says_so(monkeypatch):
    monkeypatch.setattr(limits, "stops", lambda: None)
    with pytest.warns(RuntimeWarning, match="limit of 3 s does not hold.* an endless loop goes on"):
        assert check("softmax", softmax, seconds=3, process=False)
    assert check("softmax", softmax, seconds=None, process=False)


@pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="before Python 3.12")
@pytest.mark.parametrize("fn", [loops, swallows])
def test_without_timers_python_looks_at_the_clock(fn, monkeypatch):
    monkeypatch.delattr(signal, "setitimer", raising=False)
    assert limits.stops() == "steps of Python"
    for _ in range(2):
        with pytest.raises(Stopped, match="it ran for more than 0.2 s and was stopped"):
            limited(fn, 0.2, None)(1.0)
    assert not any(map(sys.monitoring.get_tool, limits.TOOLS))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
@pytest.mark.parametrize("without_core, stopped", [(0.0, True), (10.0, False)])
def test_the_time_in_which_others_had_the_cores_does_not_count(without_core, stopped, monkeypatch):
    """A busy machine stops no right function; but at most five times the limit is added."""
    told = iter([0.0, *[without_core] * 100])
    monkeypatch.setattr(limits, "waited", lambda *_: next(told))
    call = limited(lambda: time.sleep(0.3), 0.2, None)
    if stopped:
        with pytest.raises(Stopped, match="more than 0.2 s"):
            call()
    else:
        call()
        told = iter([0.0, *[without_core] * 100])
        with pytest.raises(Stopped, match="more than 0.2 s"):
            limited(lambda: time.sleep(60), 0.2, None)()


@pytest.mark.parametrize("without_core, over", [(0.0, True), (10.0, False), (60.0, False)])
def test_a_child_without_a_core_has_more_time(without_core, over, monkeypatch):
    now, told = [0.0], [0.0]
    monkeypatch.setattr(limits.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(limits, "waited", lambda process="self": told[0] / 2)
    deadline = isolation._Deadline(10.0, 1)
    now[0], told[0] = 19.0, without_core
    assert deadline.is_over() is over
    now[0] = 10.0 + 5 * 10.0 + isolation.GRACE + 0.1
    assert deadline.is_over()


@LINUX
def test_what_a_process_has_started_belongs_to_its_family(monkeypatch):
    with subprocess.Popen([sys.executable, "-c", STARTS_ANOTHER], stdout=subprocess.PIPE,
                          start_new_session=True) as process:
        try:
            child = int(process.stdout.readline())
            stopwatch = limits.Stopwatch(process.pid, families=True)
            assert limits.family(process.pid) == [process.pid, child]
            assert limits.family(process.pid, most=1) == [process.pid]
            monkeypatch.setattr(limits, "waited", {process.pid: 0.0, child: 1000.0}.get)
            assert stopwatch.counted(10.0) < 0       # five times ten seconds are forgiven
            assert limits.Stopwatch(process.pid).counted(10.0) >= 0
        finally:
            os.killpg(process.pid, signal.SIGKILL)
