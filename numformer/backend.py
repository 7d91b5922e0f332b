"""Which twin runs, the truth in NumPy or its compiled form, and on which threads: decided here and nowhere else.

There is one pool of threads, and it is Python's. Work comes as independent pieces (shards of a batch, tiles of a kernel);
NumPy and the kernels release the interpreter's lock inside their loops and products, so pieces run side by side. While they
do, BLAS is held at one thread: its own pool would fight with ours for the same cores, and its split of a product would depend
on their number.
"""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import lru_cache

import numpy as np
from threadpoolctl import OpenBLASController, ThreadpoolController

from numformer.checks import check_choice, check_whole
from numformer.functional import attention as truth
from numformer.functional.pattern import EVERYWHERE

WORTH_A_THREAD = 4e6                                                  # products: to wake a thread costs as much as this many take

_twin = "numba"
_threads = None                                                       # None: as many as this process may use
_place = threading.local()
_lock = threading.Lock()
_guards = 0
_limits = []


def use(twin):
    """Choose what runs where there is a choice: "numba", the compiled kernels (the default), or "numpy", the truth.

    Complex numbers, and everything on a machine without Numba, go to the truth in any case.

    Raises
    ------
    ValueError
        If `twin` is neither.

    Examples
    --------
    >>> use("numpy")
    >>> use("numba")
    """
    global _twin
    check_choice("use", "twin", twin, ["numba", "numpy"])
    _twin = twin


@lru_cache(maxsize=1)
def compiled_attention():
    """The module of the compiled twin; None where Numba is missing."""
    try:
        from numformer.kernels import attention
    except ImportError:
        return None
    return attention


def scaled_dot_product_attention(q, k, v, pattern=EVERYWHERE, scale=None, slopes=None, bias=None, softcap=None, dropout=0.0, seed=None):
    """`numformer.functional.scaled_dot_product_attention`, by the kernel where it can, on several threads where that pays.

    Parameters, result and errors are the same; the bits do not depend on the number of threads.
    """
    compiled = _kernel_for(q, k, v, bias)
    arguments = q, k, v, pattern, scale, slopes, bias, softcap, dropout, seed
    if compiled is None:
        o, saved = truth.scaled_dot_product_attention(*arguments)
    else:
        o, saved = compiled.scaled_dot_product_attention(*arguments, tasks=_tasks(q.size * k.shape[2]), run=run_with_helpers)
    return o, (compiled, saved)


def scaled_dot_product_attention_backward(do, saved):
    """The gradient of `scaled_dot_product_attention`, by the twin that ran forward."""
    compiled, saved = saved
    if compiled is None:
        return truth.scaled_dot_product_attention_backward(do, saved)
    q, k = saved[:2]
    tasks = _tasks(q.size * k.shape[2])
    return compiled.scaled_dot_product_attention_backward(do, saved, tasks=tasks, run=run_with_helpers)


def _kernel_for(q, k, v, bias):
    """The compiled twin, if it is wanted, there, and can take these arrays (what is no array at all, the truth will refuse)."""
    arrays = [q, k, v] if bias is None else [q, k, v, bias]
    fit = all(isinstance(x, np.ndarray) and x.dtype in (np.float32, np.float64) for x in arrays) and q.ndim == k.ndim == 4
    if _twin == "numpy" or not fit or q.shape[3] > 256:
        return None
    return compiled_attention()


def _tasks(products):
    return get_threads() if products >= WORTH_A_THREAD and not getattr(_place, "inside", False) else 1


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
    """Call `function` on every item, on several threads, and return the results in the order of the items.

    Called from one of these items, it calls one after the other: no piece of work is cut twice.

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
    if getattr(_place, "inside", False):
        return [function(item) for item in items]
    threads = min(get_threads(), len(items))
    with one_blas_thread():
        if threads < 2:
            return [function(item) for item in items]
        results, todo, futures = [None] * len(items), iter(range(len(items))), []
        try:
            for _ in range(threads - 1):
                futures.append(_pool(threads - 1).submit(_work_off, function, items, todo, results))
            _work_off(function, items, todo, results)                 # this thread takes its share too
        finally:                                                      # after Ctrl-C too: nothing new begins, the guard outlasts the others
            for _ in todo:
                pass
            wait(futures)
    for future in futures:
        future.result()
    for value, error in results:
        if error is not None:
            raise error
    return [value for value, _ in results]


def _work_off(function, items, todo, results):
    """Take item after item until none is left. An error is kept, not raised: the others must be over before it comes out."""
    _place.inside = True
    try:
        for k in todo:
            try:
                results[k] = function(items[k]), None
            except Exception as error:
                results[k] = None, error
    finally:
        _place.inside = False


def run_with_helpers(function, tasks):
    """Call `function` on every task, on the first of them here: all of them share one piece of work.

    Parameters
    ----------
    function : callable
        Does what is left of the work, and returns whether all of it is finished. If so the caller goes on at once: a
        helper that comes late finds nothing to do.
    tasks : sequence

    Raises
    ------
    Exception
        What `function` raised here; and what it raised for a helper, if the work was not finished without that helper.
    """
    finished = False
    with one_blas_thread():
        helpers = [_pool(len(tasks) - 1).submit(function, task) for task in tasks[1:]]
        try:
            finished = function(tasks[0])
        finally:
            if not finished:                                          # Ctrl-C, or a unit that takes long
                wait(helpers)
    if not finished:
        for helper in helpers:
            helper.result()


@contextmanager
def one_blas_thread():
    """Hold every BLAS library of this process at one thread. Guards are counted: the last one out restores what was."""
    global _guards, _limits
    process = os.getpid()
    with _lock:
        if _guards == 0:
            _limits = [(library, library.num_threads) for library in _blas(len(sys.modules))]
            _set_blas_threads([(library, 1) for library, _ in _limits])
        _guards += 1
    try:
        yield
    finally:
        with _lock:
            if process == os.getpid():                                # a child forked inside has begun anew
                _guards -= 1
                if _guards == 0:
                    _set_blas_threads(_limits)


def _set_blas_threads(numbers):
    """From threadpoolctl 3.8 on, OpenBLAS obeys the first thread that ever asked, unless that gives way: here a lock keeps order."""
    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)
    for library, number in numbers:
        library.set_num_threads(number)


@lru_cache(maxsize=1)
def _blas(modules):
    """The BLAS libraries of this process; looked for again once modules were imported, for SciPy brings one of its own."""
    return ThreadpoolController().select(user_api="blas").lib_controllers


@lru_cache(maxsize=4)
def _pool(threads):
    return ThreadPoolExecutor(threads, thread_name_prefix="numformer")


def _begin_anew():
    """In a forked child: the threads of the pool, and whoever held the lock, stayed behind in the parent."""
    global _lock, _guards, _limits
    _pool.cache_clear()
    if _guards:
        _set_blas_threads(_limits)
    _lock, _guards, _limits = threading.Lock(), 0, []
    _place.inside = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
