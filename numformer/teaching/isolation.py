"""A process of its own for a function that may do anything: end Python, crash it, or never return.

The process is a forked child, so that closures and functions typed into a console work. One child
serves a whole check; its result comes back through a pipe.
"""

import faulthandler
import os
import pickle
import select
import signal
import sys
import warnings
from contextlib import suppress

from numformer.checks import check_number, check_whole
from numformer.teaching.limits import limited, state_kept

MOST = 2 ** 20                                        # bytes of a result
END_WITH_PARENT = 1                                   # PR_SET_PDEATHSIG of Linux
HEADER = 8                                            # bytes of its length
# their threads do not survive a fork
NO_FORK = ("jax", "tensorflow", "torch")


class _Place:
    """Where this code runs."""

    own_process = False                               # in a child that `isolated` has forked


def isolated(work, fn, seconds, memory, process=None):
    """(the result of `work(f)`, None), or (None, what ended it); `f` is `fn` with limits.

    Parameters
    ----------
    work : callable
        Its result can be pickled.
    fn : callable
    seconds, memory : float and int, or None
        As in `limited`.
    process : bool, optional
        Whether to use a process of its own; by default see `may_fork`.
    """
    if may_fork() if process is None else process:
        return _in_child(lambda pipe: work(limited(fn, seconds, memory, pipe)), seconds)
    with state_kept():
        return work(limited(fn, seconds, memory)), None


def check_limits(seconds, memory, process):
    """Refuse limits that are none, and a process where the system has no fork."""
    if seconds is not None:
        check_number("check", "seconds", seconds, above=0, below=1e6)
    if memory is not None:
        check_whole("check", "memory", memory, least=1)
    if process and not hasattr(os, "fork"):
        raise ValueError("check: process=True needs fork, which this system has not; leave "
                         "process out.")


def may_fork():
    """Whether a function is called in a process of its own by default.

    Not in a notebook, whose prints and plots would be lost; not where there is no fork (Windows) or
    where libraries do not survive one (macOS, and with JAX, TensorFlow or PyTorch loaded); and not
    twice.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return (hasattr(os, "fork") and sys.platform not in ("darwin", "emscripten", "wasi")
            and not hasattr(shell, "kernel") and not any(name in sys.modules for name in NO_FORK)
            and not _Place.own_process)


def own_process():
    """Whether this is a child of `isolated`, in which no interrupt comes from the user."""
    return _Place.own_process


def _in_child(work, seconds):
    for stream in (sys.stdout, sys.stderr):           # or the child would write the same again
        with suppress(Exception):
            stream.flush()
    reading, writing = os.pipe()
    parent = os.getpid()
    with warnings.catch_warnings():
        # of threads that run: BLAS, Numba and backend/pool.py are ready for a fork
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        try:
            os.close(reading)
            _end_with(parent)
            _child(work, writing)
        finally:
            os._exit(1)
    os.close(writing)
    try:
        data = _received(reading, pid)
    finally:
        os.close(reading)
        for end in (os.killpg, os.kill):              # its session, with all it has started
            with suppress(OSError):
                end(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    if len(data) > HEADER and len(data) == HEADER + int.from_bytes(data[:HEADER]):
        result, error = pickle.loads(data[HEADER:])
        if error is not None:
            raise error
        return result, None
    return None, _ending(data, status, seconds)


def _end_with(parent):
    """Let Linux end this process when its parent ends: an endless loop would go on without it."""
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(END_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:                    # it has ended meanwhile
            os._exit(1)


def _child(work, pipe):
    """Run `work` in the child, and send (its result, None) or (None, its exception)."""
    _Place.own_process = True
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGHUP):    # handlers are the parent's
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    faulthandler.disable()                            # a crash is reported by the parent
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)      # nobody types an input
    try:
        result = work(pipe), None
    except BaseException as error:
        result = None, error
    try:
        data = pickle.dumps(result)
    except Exception as error:
        text = f"{str(result):.500} cannot be sent: {str(error):.500}"
        data = pickle.dumps((None, RuntimeError(text)))
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    with os.fdopen(pipe, "wb") as file:
        file.write(len(data).to_bytes(HEADER) + data)
    os._exit(0)


def _received(pipe, pid):
    """What the child sent before it ended."""
    data, poll = b"", select.poll()
    poll.register(pipe, select.POLLIN)
    while len(data) < HEADER or len(data) < min(HEADER + int.from_bytes(data[:HEADER]), MOST):
        if poll.poll(200):
            chunk = os.read(pipe, 65536)
            if not chunk:
                break
            data += chunk
        elif os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break                                     # what it started may hold the pipe open
    return data


def _ending(data, status, seconds):
    """What became of a child that sent no result."""
    if data.startswith(b"Timeout ("):                 # from the watchdog
        return f"it ran for more than {seconds:g} s and could not be interrupted"
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        why = ", as of an endless recursion" if name == "SIGSEGV" else ""
        return f"it crashed Python ({name}{why})"
    return f"it ended Python (exit status {os.WEXITSTATUS(status)}); it must return"
