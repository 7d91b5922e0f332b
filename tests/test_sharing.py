"""Threads that share a piece of work: every unit has one owner, and the caller knows when all of it is finished."""

import threading
import time

import numpy as np
import pytest

from numformer import backend

numba = pytest.importorskip("numba")
from numformer.kernels.sharing import all_finished, finish, new_ledger, take, turn_of  # noqa: E402  (needs Numba)


@numba.njit(nogil=True)
def work(ledger, task, tasks, owner, times):
    units = len(owner)
    for turn in range(units):
        unit = turn_of(turn, units, task, tasks)
        if take(ledger, unit):
            owner[unit] = task
            times[unit] += 1
            for _ in range(2000):                                     # the others get their chance
                times[unit] += 0 * take(ledger, unit)
            finish(ledger)
    return all_finished(ledger, task)


@pytest.mark.parametrize("tasks", [1, 2, 3, 8])
def test_every_unit_is_done_once(tasks):
    for units in (1, 7, 100):
        ledger, owner, times = new_ledger(units), np.full(units, -1), np.zeros(units, int)
        together, said = threading.Barrier(tasks), []

        def one(task):
            together.wait()
            said.append(work(ledger, task, tasks, owner, times))

        threads = [threading.Thread(target=one, args=(task,)) for task in range(tasks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (times == 1).all() and ledger[-1] == units and len(said) == tasks and any(said)


def test_each_task_begins_with_its_own_share():
    assert [[turn_of(turn, 6, task, 3) for turn in range(6)] for task in range(3)] == [
        [0, 1, 2, 3, 4, 5], [2, 3, 4, 5, 0, 1], [4, 5, 0, 1, 2, 3]]


def test_whoever_waits_in_vain_says_so():
    """One unit is taken and never finished: nobody hangs, and nobody says that all is done."""
    ledger, owner, times = new_ledger(3), np.full(3, -1), np.zeros(3, int)
    assert take(ledger, 1)
    assert not work(ledger, 0, 1, owner, times) and times.tolist() == [1, 0, 1] and ledger[-1] == 2
    finish(ledger)
    assert all_finished(ledger, 0) and all_finished(ledger, 1)


def test_helpers_that_come_late_or_fail():
    """The caller has finished: it does not wait. It has not: it waits, and hears of errors."""
    with backend.threads(2):
        go, ended = threading.Event(), []

        def late(task):
            if task:
                go.wait(10)
                ended.append(task)
            return True

        backend.run_with_helpers(late, range(2))
        assert not ended
        go.set()

        def unfinished(task):
            time.sleep(0.05 * task)
            ended.append(task)
            return False

        backend.run_with_helpers(unfinished, range(2))
        assert ended == [1, 0, 1] or ended == [0, 1, 1]

        def fails(task):
            if task:
                raise KeyError("helper")
            return False

        with pytest.raises(KeyError, match="helper"):
            backend.run_with_helpers(fails, range(2))

        def caller_fails(task):
            if task == 0:
                raise KeyError("caller")
            time.sleep(0.05)
            ended.append("waited for")

        with pytest.raises(KeyError, match="caller"):
            backend.run_with_helpers(caller_fails, range(2))
        assert ended[-1] == "waited for"
