"""What a process of the command line needs around a verb: streams, Ctrl-C, and no window.

Nothing heavy is imported here: it runs before NumPy does.
"""

import atexit
import io
import logging
import os
import re
import signal
import sys
import threading
from contextlib import contextmanager, suppress
from functools import partial

from numformer.commands import UsageError
from numformer.files import MIB, size_in_words

try:
    import resource
except ImportError:                                   # Windows, and browsers
    resource = None

# The rank of a process among those that mpirun or srun has started: Open MPI, MPICH, PMIx
RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")
# What starts the processes of a machine for it
LAUNCHERS = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "orted", "prterun", "prted",
             "hydra_pmi_proxy", "slurmstepd", "srun")
MEMORY, MEMORY_OF_A_CORE = 896 * MIB, 64 * MIB        # of addresses: Numba; buffers and stacks
MOST_CORES = 64                                       # for which OpenBLAS has buffers
STACK = MIB
STOPPED = 130                                         # the shell's status of what Ctrl-C has ended


def launched_rank():
    """The rank that mpirun has given this process; None without mpirun."""
    found = (os.environ.get(name, "") for name in RANKS)
    return next((int(rank) for rank in found if re.fullmatch("[0-9]{1,9}", rank)), None)


def started_by_launcher():
    """Whether mpirun or srun has started this process itself, and no shell in between."""
    try:
        with open(f"/proc/{os.getppid()}/comm", encoding="ascii") as file:
            return file.read(64).strip() in LAUNCHERS
    except (OSError, ValueError):                     # no Linux: it cannot be told
        return False


def check_limits():
    """UsageError if the memory or the stack of this process is limited too much.

    OpenBLAS and LLVM end a process that gets no memory, with words of their own or none.
    These are least amounts for small models: more may be needed, and then a `MemoryError` says so.
    """
    if resource is None:
        return
    memory = MEMORY + MEMORY_OF_A_CORE * min(os.cpu_count() or 1, MOST_CORES)
    for name, what, flag, least in (("RLIMIT_AS", "memory", "-v", memory),
                                    ("RLIMIT_STACK", "its stack", "-s", STACK)):
        limit, _ = resource.getrlimit(getattr(resource, name))
        if limit != resource.RLIM_INFINITY and limit < least:
            raise UsageError(f"this process may use {size_in_words(limit)} of {what} (ulimit "
                             f"{flag}), but needs {size_in_words(least)} at least; raise the "
                             f"limit, as with: ulimit {flag} {least // 1024}")


def prepare():
    """Make standard streams usable; until `answer_signals`, Ctrl-C ends the process silently.

    A closed stream is opened on the null device. Otherwise the next file that is opened, such as a
    checkpoint, would take its number, and what is printed would be written into that file.

    Pictures are written to files, so matplotlib needs no window: a notebook passes the name of its
    own backend on to the commands that it starts, and that may not be installed here. Nor does
    matplotlib report on the user's settings, of which pictures take the fonts alone. The variables
    of tqdm are left out: its import fails for one that it cannot read, and bars have our settings.
    """
    os.environ["MPLBACKEND"] = "Agg"
    for name in [name for name in os.environ if name.startswith("TQDM_")]:
        del os.environ[name]
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:     # not ignored, as by nohup
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)                       # takes the lowest number: this one
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))
    if hasattr(sys.stdout, "reconfigure"):                       # a name that ASCII cannot write
        sys.stdout.reconfigure(errors="backslashreplace")
    if launched_rank():                                          # rank 0 prints for all
        sys.stdout, sys.stderr = (open(os.devnull, "w", encoding="utf-8") for _ in range(2))
    sys.stderr = Messages(sys.stderr)


class Ended(BaseException):
    """A signal that ends the process; what it has made and started is undone on the way out.

    Parameters
    ----------
    number : int
        Of the signal.
    """

    def __init__(self, number):
        super().__init__(f"by {signal.Signals(number).name}")
        self.number = number


def answer_signals():
    """From now on Ctrl-C raises KeyboardInterrupt, if `prepare` has set it aside.

    SIGTERM and SIGHUP raise `Ended`, so that no temporary folder and no process stays behind. A
    second SIGTERM ends the process at once; a terminal that closes may send several SIGHUP. Signals
    that the process was started to ignore stay ignored. What is raised inside a finalizer, where
    Python prints it and goes on, is raised again a moment later.
    """
    if sys.stderr.__class__ is not Messages:                     # not a process of our own
        return
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name, after in (("SIGTERM", signal.SIG_DFL), ("SIGHUP", signal.SIG_IGN)):
        number = getattr(signal, name, None)                     # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, partial(_end, after))
    if hasattr(signal, "setitimer"):                             # Windows has none
        sys.unraisablehook = _raise_later


def _raise_later(unraisable):
    """Raise an end that a finalizer has swallowed; what else a finalizer raises is printed."""
    error = unraisable.exc_value
    if not isinstance(error, (Ended, KeyboardInterrupt)):
        return sys.__unraisablehook__(unraisable)

    def again(number, frame):
        raise error.with_traceback(None)

    signal.signal(signal.SIGALRM, again)
    signal.setitimer(signal.ITIMER_REAL, 1e-3)                   # seconds


def _end(after, number, frame):
    signal.signal(number, after)
    raise Ended(number)


def end_by(number):
    """End the process by a signal, so that its parent sees which; temporary files are removed."""
    with suppress(Exception):
        atexit._run_exitfuncs()
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def finish(status):
    """Write what stdout still holds; return the exit status: 1 if it cannot be written.

    After `STOPPED` the process ends here, its temporary files removed: threads may still compile a
    kernel.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)             # no traceback of Python's own end
    try:
        sys.stdout.flush()
    except OSError as error:
        discard_stdout()
        if not status and not isinstance(error, BrokenPipeError):
            print(f"numformer: {output_lost(error)}", file=sys.stderr)
            status = 1
    if status == STOPPED:
        with suppress(Exception):
            atexit._run_exitfuncs()
        sys.stderr.flush()
        os._exit(status)
    return status


def output_lost(error):
    """In words that what is printed cannot be written."""
    return f"the output cannot be written: {error.strerror}"


def stdout_is_writable():
    """Whether what stdout holds can be written; if not, it is discarded."""
    try:
        sys.stdout.flush()
    except OSError:
        discard_stdout()
        return False
    return True


def discard_stdout():
    """Send what is still to be printed to the null device: its reader has gone, as `head` does."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


class Messages:
    """A stream for messages: one that cannot be written to must not end a job.

    Parameters
    ----------
    stream : text stream or None
    """

    is_for_messages = True                            # also where it is not sys.stderr itself

    def __init__(self, stream):
        self.stream = io.StringIO() if stream is None else stream

    def write(self, text):
        with suppress(OSError, ValueError):                      # full, gone, or closed
            return self.stream.write(text)

    def flush(self):
        with suppress(OSError, ValueError):
            self.stream.flush()

    def isatty(self):
        with suppress(OSError, ValueError):
            return self.stream.isatty()
        return False

    def __getattr__(self, name):
        return getattr(self.stream, name)


_at_once = False


@contextmanager
def ending_at_once():
    """Inside, signals end a training as they end any other job: its folder is not kept."""
    global _at_once
    before, _at_once = _at_once, True
    try:
        yield
    finally:
        _at_once = before


@contextmanager
def stop_signals(more=(), silent=False):
    """A list that is empty until Ctrl-C, SIGTERM or SIGHUP.

    A second signal has its usual effect, but for SIGHUP: a terminal that closes may send several.
    Signals that the process was started to ignore, as by nohup, stay ignored.

    Parameters
    ----------
    more : sequence of str
        Names of other signals that stop.
    silent : bool
        Whether nothing is printed.
    """
    stopped, before = [], {}

    def stop(number, frame):
        stopped.append(number)
        if number != getattr(signal, "SIGHUP", None):
            signal.signal(number, before[number])
        if silent:
            return
        with suppress(OSError):                       # no print: the stream may be in use just now
            os.write(2, b"\nstopping after this step; once more stops at once, without saving\n")

    if threading.current_thread() is threading.main_thread() and not _at_once:
        for name in ("SIGINT", "SIGTERM", "SIGHUP", *more):
            number = getattr(signal, name, None)      # Windows has no SIGHUP
            if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.getsignal(number)
        for number in before:
            signal.signal(number, stop)
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
