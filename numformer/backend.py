"""Which threads run: decided here and nowhere else.

There is one pool of threads, and it is Python's. Work comes as independent pieces (shards of a batch); NumPy releases the
interpreter's lock inside its loops and products, so pieces run side by side. While they do, BLAS is held at one thread:
its own pool would fight with ours for the same cores, and its split of a product would depend on their number.
"""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import lru_cache

from threadpoolctl import ThreadpoolController

from numformer.checks import check_whole

_threads = None                                                       # None: as many as this process may use
_lock = threading.Lock()
_guards = 0
_limiter = None


def get_threads():
    """How many threads `run_side_by_side` uses: what `set_threads` said, or the number of cores this process may use."""
    if _threads is not None:
        return _threads
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_threads(n):
    """Use `n` threads from now on; None for as many as there are cores. Results do not depend on it.

    Raises
    ------
    ValueError
        If `n` is not a whole number above 0.

    Examples
    --------
    >>> set_threads(2)
    >>> get_threads()
    2
    >>> set_threads(None)
    """
    global _threads
    if n is not None:
        check_whole("set_threads", "n", n)
    _threads = n


@contextmanager
def threads(n):
    """Use `n` threads inside a with statement, and then as many as before.

    Examples
    --------
    >>> with threads(3):
    ...     get_threads()
    3
    """
    before = _threads
    set_threads(n)
    try:
        yield
    finally:
        set_threads(before)


def run_side_by_side(function, items):
    """Call `function` on every item, on the pool's threads, and return the results in the order of the items.

    Parameters
    ----------
    function : callable
        Must not touch what another item's call touches, nor call `run_side_by_side`.
    items : sequence

    Returns
    -------
    list

    Examples
    --------
    >>> run_side_by_side(len, ["a", "bb", "ccc"])
    [1, 2, 3]
    """
    items = list(items)
    with one_blas_thread():
        if get_threads() == 1 or len(items) < 2:
            return [function(item) for item in items]
        futures = [_pool(get_threads()).submit(function, item) for item in items]
        wait(futures)                                                 # all of them, also where one has failed: the guard must outlast them
        return [future.result() for future in futures]


@contextmanager
def one_blas_thread():
    """Hold every BLAS library of this process at one thread. Guards are counted: the last one out restores what was."""
    global _guards, _limiter
    with _lock:
        if _guards == 0:
            _limiter = _controller(len(sys.modules)).limit(limits=1, user_api="blas")
        _guards += 1
    try:
        yield
    finally:
        with _lock:
            _guards -= 1
            if _guards == 0:
                _limiter.restore_original_limits()
                _limiter = None


@lru_cache(maxsize=1)
def _controller(modules):
    """The BLAS libraries of this process; looked for again once modules were imported, for SciPy brings one of its own."""
    return ThreadpoolController()


@lru_cache(maxsize=1)
def _pool(threads):
    return ThreadPoolExecutor(threads, thread_name_prefix="numformer")


def _begin_anew():
    """In a forked child: the threads of the pool, and whoever held the lock, stayed behind in the parent."""
    global _lock, _guards, _limiter
    _pool.cache_clear()
    _lock, _guards, _limiter = threading.Lock(), 0, None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
