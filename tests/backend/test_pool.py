"""The thread pool: order of results, errors, Ctrl-C, forks, and helpers."""

import gc
import os
import signal
import threading
import time
import weakref

import pytest
import threadpoolctl
from threadpoolctl import threadpool_info

from numformer import backend
from numformer.backend import cores, pool

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
no_fork_warning = pytest.mark.filterwarnings(
    "ignore:.*multi-threaded.*fork:DeprecationWarning")


def blas_threads():
    return {library["num_threads"] for library in threadpool_info()
            if library["user_api"] == "blas"}


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_results_are_in_the_order_of_the_items(threads):
    backend.set_threads(threads)
    assert backend.run_side_by_side(lambda k: k * k, range(20)) == [k * k for k in range(20)]


@pytest.mark.parametrize("shares", [1, 2, 4, 9])
def test_shares_do_not_change_the_order_of_results(shares):
    backend.set_threads(2)
    assert backend.run_by_shares(lambda k: k * k, range(7), shares) == [k * k for k in range(7)]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_threads_are_as_many_as_cores_that_this_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert backend.available_cores() == backend.get_threads() == 1
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize("quotas, expected", [
    ({"a/b": "150000 100000"}, 2), ({"a": "50000 100000", "a/b": "max 100000"}, 1),
    ({"": "300000 100000", "a/b": "400000 100000"}, 3), ({"a": "max 100000"}, float("inf")),
    ({"a/b": "nonsense"}, float("inf")), ({}, float("inf")), ({"c": "100000 100000"},
                                                             float("inf"))])
def test_a_quota_of_a_control_group_counts_cores(tmp_path, quotas, expected):
    for group, quota in quotas.items():
        (tmp_path / "mount" / group).mkdir(parents=True, exist_ok=True)
        (tmp_path / "mount" / group / "cpu.max").write_text(f"{quota}\n")
    groups = tmp_path / "cgroup"
    groups.write_text("4:memory:/other\n0::/a/b\n")
    quota = cores._quota.__wrapped__
    assert quota(groups, tmp_path / "mount") == expected
    assert quota(tmp_path / "missing", tmp_path / "mount") == float("inf")
    groups.write_text("4:memory:/other\n")
    assert quota(groups, tmp_path / "mount") == float("inf")


def test_two_threads_run_in_parallel():
    backend.set_threads(2)
    barrier = threading.Barrier(2, timeout=300)
    assert sorted(backend.run_side_by_side(lambda _: barrier.wait(), range(2))) == [0, 1]


@needs_fork
@no_fork_warning
def test_a_forked_child_has_threads_of_its_own():
    backend.set_threads(2)
    backend.run_side_by_side(abs, range(4))
    child = os.fork()
    if child == 0:
        os._exit(0 if backend.run_side_by_side(abs, range(4)) == [0, 1, 2, 3] else 1)
    deadline = time.monotonic() + 300
    while (found := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.01)
    if found == (0, 0):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert found == (child, 0)


def test_an_error_of_an_item_is_raised():
    backend.set_threads(2)
    with pytest.raises(ZeroDivisionError):
        backend.run_side_by_side(lambda k: 1 / k, [1, 0, 2])


def test_an_error_is_raised_only_after_the_other_items_have_ended():
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


def test_ctrl_c_starts_nothing_new_and_waits_for_what_has_begun():
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


def test_an_item_runs_its_own_items_in_its_own_thread():
    def thread_names(_):
        return backend.run_side_by_side(lambda _: threading.current_thread().name, range(8))

    backend.set_threads(2)
    names = backend.run_side_by_side(thread_names, range(2))
    assert all(len(set(of_one)) == 1 for of_one in names)


@pytest.mark.parametrize("n", [0, -1, 1.5, "two", True])
def test_a_number_of_threads_that_is_not_positive_is_refused(n):
    with pytest.raises(ValueError, match="n="):
        backend.set_threads(n)


def test_the_caller_does_not_wait_for_a_helper_if_the_work_is_finished():
    go, ended = threading.Event(), []

    def late(task):
        if task:
            go.wait(10)
            ended.append(task)
        return True

    with backend.threads(2):
        backend.run_with_helpers(late, range(2))
        assert not ended
        go.set()


def test_the_caller_waits_for_a_helper_if_the_work_is_not_finished():
    ended = []

    def unfinished(task):
        time.sleep(0.05 * task)
        ended.append(task)
        return False

    with backend.threads(2):
        backend.run_with_helpers(unfinished, range(2))
    assert sorted(ended) == [0, 1]


def test_an_error_of_a_helper_is_raised_if_the_work_is_not_finished():
    def fails(task):
        if task:
            raise KeyError("helper")
        return False

    with backend.threads(2), pytest.raises(KeyError, match="helper"):
        backend.run_with_helpers(fails, range(2))


def test_an_error_of_the_caller_is_raised_after_the_helpers_have_ended():
    ended = []

    def caller_fails(task):
        if task == 0:
            raise KeyError("caller")
        time.sleep(0.05)
        ended.append("waited for")

    with backend.threads(2), pytest.raises(KeyError, match="caller"):
        backend.run_with_helpers(caller_fails, range(2))
    assert ended == ["waited for"]


@pytest.mark.parametrize("blas", [True, False])
def test_helpers_hold_blas_at_one_thread_where_the_work_has_its_products(blas):
    guards = []
    with backend.threads(2):
        backend.run_with_helpers(lambda task: guards.append(pool._guards), range(2), blas)
    assert guards == [blas, blas] and pool._guards == 0


def refused(*_):
    raise RuntimeError("can't start new thread")


@pytest.fixture
def without_threads(monkeypatch):
    pool._pool.cache_clear()
    monkeypatch.setattr(threading.Thread, "start", refused)
    yield
    monkeypatch.undo()
    pool._pool.cache_clear()


def test_where_no_thread_can_be_started_loops_stand_in(without_threads):
    backend.set_threads(4)
    assert not backend.can_start_threads()
    assert backend.run_side_by_side(lambda k: k * k, range(9)) == [k * k for k in range(9)]
    assert backend.run_by_shares(lambda k: k * k, range(9)) == [k * k for k in range(9)]
    with pytest.raises(ZeroDivisionError):
        backend.run_side_by_side(lambda k: 1 / k, [1, 0, 2])
    for answers, expected in (([True], [0]), ([False, True], [0, 1]), (3 * [False], [0, 1, 2])):
        tasks, left = [], iter(answers)
        backend.run_with_helpers(lambda task: tasks.append(task) or next(left), range(3))
        assert tasks == expected, "until the work is finished"


def test_threads_that_could_not_be_started_leave_nothing_behind(without_threads):
    """What was to be done in them does not wait in a queue, with all its arrays."""
    class Big:
        pass

    big = Big()
    gone = weakref.ref(big)
    backend.set_threads(3)
    backend.run_side_by_side(lambda k, big=big: k, range(4))
    del big
    gc.collect()
    assert gone() is None


def test_where_some_threads_can_be_started_all_work_is_done_once(monkeypatch):
    """The pool gives what it could not start a thread for to one that runs: not done twice."""
    pool._pool.cache_clear()
    start, started = threading.Thread.start, []

    def at_most_one(thread):
        if started:
            refused()
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", at_most_one)
    backend.set_threads(4)
    done = []
    assert backend.run_side_by_side(lambda k: done.append(k) or k, range(50)) == [*range(50)]
    assert sorted(done) == [*range(50)] and len(started) == 1
    started[0].join()                                 # its pool was given up
    tasks = []
    backend.run_with_helpers(lambda task: tasks.append(task), range(3))
    assert sorted(tasks) == [0, 1, 2]
    pool._pool.cache_clear()


def test_inside_an_item_there_are_no_helpers_and_no_second_guard():
    backend.set_threads(2)
    seen = []

    def item(_):
        backend.run_with_helpers(lambda task: seen.append((get_ident(), task, pool._guards)),
                                 range(3))
        return get_ident()

    get_ident = threading.get_ident
    threads = backend.run_side_by_side(item, range(2))
    assert sorted(seen) == sorted((thread, task, 1) for thread in threads for task in range(3))


def test_no_blas_that_can_be_held_is_no_error(monkeypatch):
    class Unknown:
        def __init__(self):
            raise OSError("no such system")

    monkeypatch.setattr(threadpoolctl, "ThreadpoolController", Unknown)
    pool._blas.cache_clear()
    try:
        assert backend.blas_libraries() == []
        with backend.one_blas_thread():
            assert backend.run_side_by_side(abs, [-1, 2, -3]) == [1, 2, 3]
    finally:
        pool._blas.cache_clear()
