"""Threads: their number, their order, and BLAS held at one."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from threadpoolctl import threadpool_info

from numformer import backend


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_results_come_in_order(threads):
    backend.set_threads(threads)
    assert backend.run_side_by_side(lambda k: k * k, range(20)) == [k * k for k in range(20)]


def test_two_threads_do_run_side_by_side():
    backend.set_threads(2)
    barrier = threading.Barrier(2, timeout=10)
    assert sorted(backend.run_side_by_side(lambda _: barrier.wait(), range(2))) == [0, 1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own():
    backend.set_threads(2)
    backend.run_side_by_side(abs, range(4))
    child = os.fork()
    if child == 0:
        os._exit(0 if backend.run_side_by_side(abs, range(4)) == [0, 1, 2, 3] else 1)
    deadline = time.monotonic() + 30
    while (found := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    if found == (0, 0):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert found == (child, 0)


def test_an_error_comes_out():
    backend.set_threads(2)
    with pytest.raises(ZeroDivisionError):
        backend.run_side_by_side(lambda k: 1 / k, [1, 0, 2])


def test_an_error_waits_for_the_others():
    ended = []

    def work(k):
        if k == 0:
            raise ZeroDivisionError
        time.sleep(0.05)
        ended.append((k, blas_threads()))

    backend.set_threads(3)
    with pytest.raises(ZeroDivisionError):
        backend.run_side_by_side(work, range(5))
    assert sorted(ended) == [(k, {1}) for k in range(1, 5)]


def test_ctrl_c_begins_nothing_new_and_waits_for_the_others():
    ended = []

    def work(k):
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        time.sleep(0.1)
        ended.append((k, blas_threads()))

    backend.set_threads(2)
    with pytest.raises(KeyboardInterrupt):
        backend.run_side_by_side(work, range(50))
    assert len(ended) <= 2 and all(threads == {1} for _, threads in ended)
    time.sleep(0.3)
    assert len(ended) <= 2


def test_no_piece_of_work_is_cut_twice():
    backend.set_threads(2)
    names = backend.run_side_by_side(lambda _: backend.run_side_by_side(lambda _: threading.current_thread().name, range(8)), range(2))
    assert all(len(set(of_one)) == 1 for of_one in names)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_forked_inside_a_guard_begins_anew():
    before = blas_threads()
    with backend.one_blas_thread():
        child = os.fork()
        if child == 0:
            os._exit(0 if blas_threads() == before and backend.pool._guards == 0 else 1)
    assert os.waitpid(child, 0) == (child, 0) and blas_threads() == before


def test_blas_is_held_at_one_thread_and_restored_after():
    before = blas_threads()
    with backend.one_blas_thread():
        with backend.one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == before
    with pytest.raises(KeyError):
        with backend.one_blas_thread():
            raise KeyError
    assert blas_threads() == before


def test_a_blas_that_comes_with_the_first_kernel_is_held_too():
    """In a fresh process SciPy's is not there before; half a step on one thread and half on two would have other bits."""
    pytest.importorskip("numba")
    code = """
import numpy as np
from threadpoolctl import ThreadpoolController
from numformer import backend
from numformer.layers import Linear

def threads():
    return [library.num_threads for library in ThreadpoolController().select(user_api="blas").lib_controllers]

layer = Linear(8, 8, np.random.default_rng(0))
ThreadpoolController().limit(limits=2, user_api="blas")
alone = len(threads())
with backend.one_blas_thread():
    y, saved = layer.forward(np.ones((4, 8), np.float32))
    layer.backward(y, saved)
    inside = threads()
print(alone < len(inside), inside, threads())
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                           env={**os.environ, "OPENBLAS_NUM_THREADS": "2"})
    assert found.stdout.split("\n")[0] in ("True [1, 1] [2, 2]", "False [1] [2]"), found.stdout     # one library, where both share it


def test_blas_is_held_and_restored_by_any_thread():
    """The last one out restores, whichever thread that is."""
    before, seen, entered, left = blas_threads(), [], threading.Event(), threading.Event()

    def guard():
        with backend.one_blas_thread():
            seen.append(blas_threads())
            entered.set()
            left.wait()

    for first_out in ("caller", "other"):
        entered.clear()
        left.clear()
        other = threading.Thread(target=guard)
        with backend.one_blas_thread():
            other.start()
            entered.wait()
            if first_out == "other":
                left.set()
                other.join()
        left.set()
        other.join()
        assert blas_threads() == before
    left.set()
    other = threading.Thread(target=guard)                            # alone, after another thread has set the number
    other.start()
    other.join()
    assert seen == 3 * [{1}] and blas_threads() == before


@pytest.mark.parametrize("n", [0, -1, 1.5, "two", True])
def test_bad_numbers_of_threads(n):
    with pytest.raises(ValueError, match="n="):
        backend.set_threads(n)
