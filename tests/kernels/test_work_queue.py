"""Threads that share one piece of work: every unit has one owner, and the caller knows the end."""

import threading

import numpy as np
import pytest

numba = pytest.importorskip("numba")
from numformer.kernels.runtime.work_queue import (  # noqa: E402  (needs Numba)
    all_finished, finish, new_queue, take, unit_of_turn)


@numba.njit(nogil=True)
def work(queue, task, tasks, owner, times):
    units = len(owner)
    for turn in range(units):
        unit = unit_of_turn(turn, units, task, tasks)
        if take(queue, unit):
            owner[unit] = task
            times[unit] += 1
            for _ in range(2000):                                       # let the others compete
                times[unit] += 0 * take(queue, unit)
            finish(queue)
    return all_finished(queue, task)


@numba.njit
def take_unit_1(queue):
    return take(queue, 1)


@numba.njit
def finish_one_and_all(queue):
    finish(queue)
    return all_finished(queue, 0) and all_finished(queue, 1)


@pytest.mark.parametrize("tasks", [1, 2, 3, 8])
def test_every_unit_is_done_once(tasks):
    for units in (1, 7, 100):
        queue, owner, times = new_queue(units), np.full(units, -1), np.zeros(units, int)
        together, results = threading.Barrier(tasks), []

        def one(task):
            together.wait()
            results.append(work(queue, task, tasks, owner, times))

        threads = [threading.Thread(target=one, args=(task,)) for task in range(tasks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (times == 1).all() and queue[-1] == units
        assert len(results) == tasks and any(results)


def test_each_task_begins_with_a_share_of_its_own():
    orders = [[unit_of_turn.py_func(turn, 6, task, 3) for turn in range(6)] for task in range(3)]
    assert orders == [[0, 1, 2, 3, 4, 5], [2, 3, 4, 5, 0, 1], [4, 5, 0, 1, 2, 3]]


def test_work_with_an_unfinished_unit_is_not_reported_as_finished():
    """One unit is taken and never finished: nobody waits forever."""
    queue, owner, times = new_queue(3), np.full(3, -1), np.zeros(3, int)
    assert take_unit_1(queue)
    assert not work(queue, 0, 1, owner, times) and times.tolist() == [1, 0, 1] and queue[-1] == 2
    assert finish_one_and_all(queue)
