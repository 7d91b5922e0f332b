"""Limits of time and memory for the calls of a function that may do anything."""

import os
import random
import signal
import sys
import threading
import time
import warnings
from contextlib import contextmanager, nullcontext, suppress

import numpy as np

try:
    import resource
except ImportError:                                   # Windows, and browsers
    resource = None

from numformer.backend import available_cores
from numformer.files import GIB, MIB, size_in_words

STATM = "/proc/self/statm"                            # Linux: the first number is pages in use
SCHEDSTAT = "/proc/{}/schedstat"                      # the second is nanoseconds without a core
CHILDREN = "/proc/{0}/task/{0}/children"
MOST_WAITING = 5                                      # times a limit
TOOLS = 3, 4                                          # of `sys.monitoring`, which nobody has
AGAIN = 1.0                                           # seconds until a call is stopped once more


def waited(process="self"):
    """Seconds for which a process was ready to run and had no core; 0 where no system tells.

    A limit of time does not count them: on a busy machine a right function would be stopped.
    """
    try:
        with open(SCHEDSTAT.format(process), "rb") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def family(process, most=1000):
    """A process, those that it has started, and so on; where the system tells."""
    found = [process]
    for parent in found:
        with suppress(OSError, ValueError), open(CHILDREN.format(parent)) as file:
            found += map(int, file.read().split())
        if len(found) > most:
            break
    return found[:most]


class Stopwatch:
    """The time since it was made, without that in which one of some processes had no core.

    Parameters
    ----------
    *processes : int or "self"
    families : bool
        Whether what these processes start counts as well.
    """

    def __init__(self, *processes, families=False):
        self.processes, self.started = processes, time.monotonic()
        self.waited = {process: waited(process) for process in processes}
        self.before, self.families = sum(self.waited.values()), families

    def elapsed(self):
        """Seconds."""
        return time.monotonic() - self.started

    def counted(self, limit):
        """Seconds that count for a limit, of which at most `MOST_WAITING` times are forgiven."""
        for process in self.processes:
            for one in family(process) if self.families else [process]:
                self.waited[one] = waited(one)
        without_core = sum(self.waited.values()) - self.before
        return self.elapsed() - min(without_core, MOST_WAITING * limit)


class Stopped(BaseException):
    """A limit has stopped a call; the text says which. No `except Exception` of a student's."""


def limited(fn, seconds, memory):
    """`fn` with limits; its signature is that of `fn`.

    Parameters
    ----------
    fn : callable
    seconds : float or None
        Limit of a call, without the time in which other programs had the cores. It needs the main
        thread, and one of the `stops` of this system.
    memory : int or None
        Bytes that a call may need beyond what the process has. It needs Linux.

    Warns
    -----
    RuntimeWarning
        If nothing here can hold the limit of time.
    """
    if seconds is not None and stops() is None:
        warnings.warn(f"the limit of {seconds:g} s does not hold on this system, where Python 3.12 "
                      "or later could: an endless loop goes on until you press Ctrl-C",
                      RuntimeWarning, stacklevel=2)

    def call(*arguments, **options):
        process = os.getpid()
        try:
            with _memory_limit(memory), _time_limit(seconds):
                return fn(*arguments, **options)
        except MemoryError as error:
            if memory is None:
                raise
            stopped = Stopped(f"it needs more than {size_in_words(memory)} of memory")
            raise stopped.with_traceback(error.__traceback__) from None
        finally:
            if os.getpid() != process:                # `fn` has forked: only one of the two returns
                os._exit(0)

    call.__wrapped__ = fn                             # what inspect.signature follows
    return call


@contextmanager
def state_kept():
    """Undo changes of NumPy's error state, print options and global random state."""
    legacy, python = np.random.get_state(), random.getstate()
    with np.errstate(), np.printoptions():
        try:
            yield
        finally:
            np.random.set_state(legacy)
            random.setstate(python)


def stops():
    """What stops a call after its time in this process: "a timer", "steps of Python" or None.

    Without timers, as in a browser, Python itself looks at the clock whenever a loop goes round and
    a function begins. That stops no single call of a library; and before Python 3.12 nothing does.
    """
    if hasattr(signal, "setitimer"):
        return "a timer"
    return "steps of Python" if hasattr(sys, "monitoring") else None


def _time_limit(seconds):
    how = stops()
    if seconds is None or how is None or threading.current_thread() is not threading.main_thread():
        return nullcontext()
    return _timer(seconds) if how == "a timer" else _watched_steps(seconds)


@contextmanager
def _watched_steps(seconds):
    """Look at the clock at each jump back and each start of a function."""
    watch, now = sys.monitoring, time.monotonic       # a student may replace names
    tool = next((n for n in TOOLS if watch.get_tool(n) is None), None)
    if tool is None:                                  # of debuggers and the like, or a call inside
        yield
        return
    end = now() + seconds

    def look(*_):
        nonlocal end
        if now() > end:
            end = now() + AGAIN                       # our own steps that follow are not stopped
            raise Stopped(_too_long(seconds))

    events = watch.events.JUMP | watch.events.PY_START
    watch.use_tool_id(tool, "numformer")
    try:
        for event in (watch.events.JUMP, watch.events.PY_START):
            watch.register_callback(tool, event, look)
        watch.set_events(tool, events)
        yield
    finally:
        watch.set_events(tool, 0)
        watch.free_tool_id(tool)


def _too_long(seconds):
    return f"it ran for more than {seconds:g} s and was stopped"


@contextmanager
def _timer(seconds):
    def stop(*_):
        rest = seconds - stopwatch.counted(seconds)
        if rest < 0.05:
            raise Stopped(_too_long(seconds))
        signal.setitimer(signal.ITIMER_REAL, rest)

    stopwatch = Stopwatch("self")
    handler = signal.signal(signal.SIGALRM, stop)
    delay, interval = signal.setitimer(signal.ITIMER_REAL, seconds)      # of somebody else's alarm
    try:
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, handler or signal.SIG_DFL)
        if delay:
            rest = max(delay - stopwatch.elapsed(), 1e-3)
            signal.setitimer(signal.ITIMER_REAL, rest, interval)


def limits_memory():
    """Whether the memory of a call can be limited: on Linux."""
    return resource is not None and os.path.exists(STATM)


@contextmanager
def _memory_limit(memory):
    if memory is None or not limits_memory():
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = _memory_in_use() + int(memory)
    bounds = [bound for bound in (soft, hard) if bound != resource.RLIM_INFINITY]
    with suppress(ValueError, OverflowError, OSError): # a system that refuses: no limit
        resource.setrlimit(resource.RLIMIT_AS, (min([limit, *bounds]), hard))
    try:
        yield
    finally:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def limit_process(seconds, memory=GIB, file_size=16 * MIB, processes=200):
    """Limit this process, and those that it starts, for good; where the system has such limits.

    Parameters
    ----------
    seconds : float
        Of CPU time, for each core.
    memory : int
        Bytes of a process beyond what this one has now. Linux only.
    file_size : int
        Bytes of any file that is written.
    processes : int
        Processes and threads that the user may have beyond those running now. Linux only, and not
        for root.
    """
    if resource is None:
        return
    limits = {"RLIMIT_CPU": int(seconds * available_cores()) + 5, "RLIMIT_FSIZE": file_size,
              "RLIMIT_CORE": 0}
    if os.path.exists(STATM):
        limits.update(RLIMIT_AS=_memory_in_use() + memory,
                      RLIMIT_NPROC=_threads_of_user() + processes)
    for name, limit in limits.items():
        # a system that refuses
        with suppress(AttributeError, ValueError, OverflowError, OSError):
            kind = getattr(resource, name)
            hard = resource.getrlimit(kind)[1]
            limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(kind, (limit, limit))


def _memory_in_use():
    """Bytes of this process's address space."""
    with open(STATM) as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _threads_of_user():
    """How many threads this user has in all processes."""
    n = 0
    for entry in os.scandir("/proc"):
        with suppress(OSError):                       # it has ended meanwhile
            if entry.name.isdigit() and entry.stat().st_uid == os.getuid():
                n += len(os.listdir(f"{entry.path}/task"))
    return n
