"""What the kernels are built on, as plain Python: the work queue, fast functions, copies."""

import numpy as np
import plain_python
import pytest

from numformer.kernels.decoding import phases
from numformer.kernels.runtime import arithmetic, memory, work_queue


def test_each_unit_is_taken_once_and_the_end_is_seen():
    queue = work_queue.new_queue(3)
    assert [work_queue.unit_of_turn(turn, 3, 1, 2) for turn in range(3)] == [1, 2, 0]
    assert work_queue.take(queue, 1) and not work_queue.take(queue, 1) and work_queue.take(queue, 0)
    work_queue.finish(queue)
    assert not work_queue.all_finished(queue, 0) and not work_queue.all_finished(queue, 1)
    assert queue.tolist() == [1, 1, 0, 1]
    work_queue.finish(queue)
    work_queue.finish(queue)
    assert work_queue.all_finished(queue, 0) and work_queue.all_finished(queue, 1)


def test_a_thread_polls_a_limited_number_of_times(monkeypatch):
    """The caller until all is finished, or POLLS times; a helper EXTRA_POLLS times more."""
    polls, step = [], work_queue._add
    monkeypatch.setattr(work_queue, "_add", lambda queue, n, value: (
        polls.append((n, value)) or step(queue, n, value)))
    for units in (1, 2, 3):
        for finished in range(units + 1):
            for task in (0, 1, 2):
                queue = work_queue.new_queue(units)
                assert queue.tolist() == [0] * (units + 1)
                for _ in range(finished):
                    work_queue.finish(queue)
                polls.clear()
                assert work_queue.all_finished(queue, task) == (finished == units)
                first = 1 if finished == units else work_queue.POLLS
                extra = work_queue.EXTRA_POLLS * (task > 0)
                assert polls == [(units, 0)] * (first + extra)


def test_a_unit_of_a_phase_that_another_task_takes_in_between_is_left_to_it(monkeypatch):
    """Between the look at what is left, and the atomic step that takes it."""
    add = phases._add

    def after_another(queue, n, value):
        add(queue, n, value)
        return add(queue, n, value)

    monkeypatch.setattr(phases, "_add", after_another)
    assert phases.next_unit(np.zeros(2, np.int64), 1, 0, 1) == -1
    assert phases.next_unit(np.zeros(2, np.int64), 2, 0, 1) == 1


def test_a_waiting_task_polls_before_it_gives_way(monkeypatch):
    """POLLS times; from then on it gives way after each poll."""
    polls, waited, add, queue = [], [], phases._add, np.zeros(3, np.int64)

    def give_way():
        waited.append(len(polls))
        queue[2] += 1

    monkeypatch.setattr(phases, "POLLS", 3)
    monkeypatch.setattr(phases, "give_way", give_way)
    monkeypatch.setattr(phases, "_add", lambda *arguments: polls.append(1) or add(*arguments))
    phases.wait_for_units(queue, 2)
    assert waited == [4, 5] and len(polls) == 6


def test_a_helper_polls_some_more_so_that_the_caller_leaves_first(monkeypatch):
    polls = []
    monkeypatch.setattr(phases, "_add", lambda queue, n, value: polls.append((n, value)))
    for task in (0, 1, 2):
        polls.clear()
        assert phases.let_the_caller_leave_first(np.zeros(4, np.int64), task) is True
        assert polls == [(3, 0)] * (phases.EXTRA_POLLS * (task > 0))


def test_exp_and_tanh_are_good_to_two_ulp():
    """In float32, where they are used: exp below 0, tanh everywhere."""
    with np.errstate(over="ignore", invalid="ignore"):
        small = [-0.0, -1e-10, -1e-30]
        for x in np.concatenate([np.linspace(-86, 0, 4000), small]).astype(np.float32):
            true = np.exp(np.float64(x))
            assert abs(arithmetic._exp32(x) - true) <= 2 * np.spacing(np.float32(true)), x
        assert [arithmetic._exp32(np.float32(x)) for x in (-86.1, -200, -np.inf)] == [0, 0, 0]
        assert np.isnan(arithmetic._exp32(np.float32(np.nan)))
        special = [0.0, -0.0, 1e-10, 0.624999, 0.625, 0.62501, 50, -50]
        for x in np.concatenate([np.linspace(-12, 12, 4001), special]).astype(np.float32):
            true = np.tanh(np.float64(x))
            assert abs(arithmetic._tanh32(x) - true) <= 2 * np.spacing(np.float32(abs(true))), x
            assert np.sign(arithmetic._tanh32(x)) == np.sign(x)


@pytest.mark.parametrize("I, D", [(1, 1), (7, 9), (8, 8), (9, 17), (16, 8), (3, 16), (24, 10)])
def test_matrices_are_transposed_copied_and_cleared(I, D):
    x = np.arange(I * D).reshape(I, D) + 0.5
    xt, y = np.zeros((D, I)), np.ones((I, D))
    memory.transpose(x, xt)
    memory.copy(x, y)
    assert (xt == x.T).all() and (y == x).all()
    memory.clear(y)
    assert (y == 0).all()


@pytest.mark.parametrize("I, D", [
    (1, 1), (7, 9), (8, 8), (9, 17), (16, 8), (3, 16), (24, 10), (15, 72), (72, 15)])
def test_exactly_the_whole_blocks_are_transposed_in_registers(I, D, monkeypatch):
    """The rest is copied number by number."""
    blocks = []
    monkeypatch.setattr(memory, "transpose_block", lambda x, i, d, xt: (
        blocks.append((i, d)) or plain_python.transpose_block(x, i, d, xt)))
    x, xt = np.arange(I * D).reshape(I, D) + 0.5, np.zeros((D, I))
    memory.transpose(x, xt)
    assert (xt == x.T).all()
    assert blocks == [(i, d) for i in range(0, I - 7, 8) for d in range(0, D - 7, 8)]


def test_nan_and_inf_anywhere_are_found():
    x = np.ones((3, 4))
    assert arithmetic.all_finite(x)
    for value in (np.nan, np.inf, -np.inf):
        for place in ((0, 0), (1, 2), (2, 3)):
            y = x.copy()
            y[place] = value
            assert not arithmetic.all_finite(y)
