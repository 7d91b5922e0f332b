"""On which threads work runs: decided here only.

There is one thread pool, and it is Python's. Work arrives as independent pieces (shards of a batch,
tiles of a kernel). NumPy and the kernels release the GIL inside their loops and products, so the
pieces run in parallel. Meanwhile BLAS is held at one thread: its own pool would compete with ours
for the same cores, and how it splits a product would depend on their number.

Where no thread can be started, as in a browser, loops stand in: slower, with the same results.
"""

import os
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from functools import lru_cache

from numformer.backend.cores import available_cores
from numformer.blas_threads import blas_controllers
from numformer.checks import check_whole

MOST_THREADS = 4096
_threads = None                         # None: as many as this process may use
_local = threading.local()
_lock = threading.Lock()
_guards = 0
_limits = []


def get_threads():
    """How many threads `run_side_by_side` uses: set by `set_threads`, else the available cores."""
    return available_cores() if _threads is None else _threads


def set_threads(n):
    """Use `n` threads from now on; None for one per core. Results do not depend on it.

    Raises
    ------
    ValueError
        If `n` is not a whole number above 0, or above 4096.

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
        if n > MOST_THREADS:
            raise ValueError(f"set_threads: n={n} must be at most {MOST_THREADS}; one for each "
                             "core is fastest.")
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


def is_inside():
    """Whether this thread runs an item of `run_side_by_side`: such work is not split again."""
    return getattr(_local, "inside", False)


def run_side_by_side(function, items):
    """Call `function` on every item, on several threads; results are in the order of the items.

    Called from inside such an item, it runs serially: no piece of work is split twice.

    Parameters
    ----------
    function : callable
        Must not touch what another item's call touches.
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
    if is_inside():
        return [function(item) for item in items]
    threads = min(get_threads(), len(items))
    with one_blas_thread():
        if threads < 2:
            return [function(item) for item in items]
        results, todo, futures = [None] * len(items), iter(range(len(items))), []
        try:
            for _ in range(threads - 1):
                futures += _submitted(threads - 1, _run_items, function, items, todo, results)
            _run_items(function, items, todo, results)       # this thread takes its share too
        finally:                        # after Ctrl-C too: start nothing new, keep the guard
            for _ in todo:
                pass
            futures = [future for future in futures if not future.cancel()]
            wait(futures)               # only those that had begun
    for future in futures:
        future.result()
    for value, error in results:
        if error is not None:
            raise error
    return [value for value, _ in results]


def run_by_shares(function, items, shares=4):
    """`run_side_by_side` for many small items: each call takes every n-th of them.

    Examples
    --------
    >>> run_by_shares(len, ["a", "bb", "ccc", "dddd", "e"], shares=2)
    [1, 2, 3, 4, 1]
    """
    items, results = list(items), {}

    def run_share(share):
        return [function(item) for item in items[share::shares]]

    for share, values in enumerate(run_side_by_side(run_share, range(shares))):
        results.update(zip(range(share, len(items), shares), values))
    return [results[k] for k in range(len(items))]


def _run_items(function, items, todo, results):
    """Take items until none is left. Errors are kept, and raised when all threads have ended."""
    _local.inside = True
    try:
        for k in todo:
            try:
                results[k] = function(items[k]), None
            except Exception as error:
                results[k] = None, error
    finally:
        _local.inside = False


def run_with_helpers(function, tasks, blas=True):
    """Call `function` on every task, the first of them in this thread: all share one piece of work.

    Called from inside an item of `run_side_by_side`, it runs serially: BLAS is held there already.

    Parameters
    ----------
    function : callable
        Does what is left of the work, and returns whether all of it is finished. If so, the caller
        goes on at once: a helper that starts late finds nothing to do.
    tasks : sequence
    blas : bool
        Whether the work has products of BLAS, which is then held at one thread.

    Raises
    ------
    Exception
        What `function` raised in this thread; and what it raised in a helper, if the work was not
        finished without that helper.
    """
    if is_inside():
        for task in tasks:
            function(task)
        return
    finished, helpers, own = False, [], [tasks[0]]
    with one_blas_thread() if blas else nullcontext():
        for task in tasks[1:]:
            helper = _submitted(len(tasks) - 1, function, task)
            helpers += helper
            own += [] if helper else [task]           # no thread for it
        try:
            while own and not finished:
                finished = function(own.pop(0))
        finally:
            if not finished:            # Ctrl-C, or a unit that takes long
                wait(helpers)
    if not finished:
        for helper in helpers:
            helper.result()


@contextmanager
def one_blas_thread():
    """Hold every BLAS library of this process at one thread.

    Guards are counted, and the last one out restores the numbers of threads. A library that is
    loaded meanwhile, as SciPy's is with the first kernel, is held from the next guard on.
    """
    global _guards, _limits
    process = os.getpid()
    with _lock:
        _limits = _limits if _guards else []
        held = {library.filepath for library, _ in _limits}
        new = [(library, library.num_threads) for library in _blas(len(sys.modules))
               if library.filepath not in held]
        if new:
            _set_blas_threads([(library, 1) for library, _ in new])
        _limits, _guards = _limits + new, _guards + 1
    try:
        yield
    finally:
        with _lock:
            if process == os.getpid():  # a child forked inside has reset the count
                _guards -= 1
                if _guards == 0:
                    _set_blas_threads(_limits)


def _set_blas_threads(numbers):
    """Set the threads of each library; the caller holds the lock.

    From threadpoolctl 3.8 on, OpenBLAS obeys only the first thread that set a limit, unless that
    control is cleared.
    """
    if not numbers:                     # threadpoolctl may be missing
        return
    from threadpoolctl import OpenBLASController

    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)
    for library, number in numbers:
        library.set_num_threads(number)


def blas_libraries():
    """The BLAS libraries that `one_blas_thread` holds: what threadpoolctl says of each, as a dict.

    It does not know them all: Apple's Accelerate decides itself on which threads it runs.
    """
    return [library.info() for library in _blas(len(sys.modules))]


@lru_cache(maxsize=1)
def _blas(modules):
    """The BLAS libraries of this process. The number of imported modules is the key of the cache:
    SciPy brings a library of its own.
    """
    return blas_controllers(user_api="blas")


def _submitted(threads, function, *arguments):
    """[the future of a call in a pool of n threads], or [] where no thread can be started."""
    future = Future()

    def work():
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(function(*arguments))
            except BaseException as error:
                future.set_exception(error)

    try:
        _pool(threads).submit(work)
    except RuntimeError:                # no more threads; `work` may wait for one of them even so
        _pool.cache_clear()
        return [] if future.cancel() else [future]
    return [future]


def can_start_threads():
    """Whether another thread can be started: where not, all work runs in this one."""
    futures = _submitted(1, int)
    wait(futures)
    return bool(futures)


@lru_cache(maxsize=4)
def _pool(threads):
    return ThreadPoolExecutor(threads, thread_name_prefix="numformer")


def _reset_after_fork():
    """In a forked child: the pool's threads and the lock's owner exist in the parent only."""
    global _lock, _guards, _limits
    _pool.cache_clear()
    if _guards:
        _set_blas_threads(_limits)
    _lock, _guards, _limits = threading.Lock(), 0, []
    _local.inside = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
