"""Threads: their number, their order, and BLAS held at one."""

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


@pytest.mark.parametrize("n", [0, -1, 1.5, "two", True])
def test_bad_numbers_of_threads(n):
    with pytest.raises(ValueError, match="n="):
        backend.set_threads(n)
