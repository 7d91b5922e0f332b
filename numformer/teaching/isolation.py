"""A process of its own for a function that may do anything: end Python, crash it, or never return.

The process is a forked child, so that closures and functions typed into a console work. One child
answers all calls of a check. The judge stays in the parent; what goes to and fro is described in
`numformer.teaching.apart.messages`.
"""

import faulthandler
import gc
import os
import select
import signal
import sys
import time
import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from numformer.backend import can_fork
from numformer.checks import check_number, check_whole
from numformer.files import MIB
from numformer.teaching.apart import messages
from numformer.teaching.apart.names import our_names
from numformer.teaching.calls import Ended, Limits, Student, performed
from numformer.teaching.limits import Stopwatch, state_kept

END_WITH_PARENT = 1                                   # PR_SET_PDEATHSIG of Linux
GRACE = 2.0                       # seconds after the limit until a call that goes on is ended
MOST_FILES = 2 ** 16                                  # open in a process that judges
# their threads do not survive a fork
NO_FORK = ("jax", "tensorflow", "torch")


class _Place:
    """Where this code runs."""

    own_process = False                               # in a child that `Child` has forked


@contextmanager
def student(fn, seconds, memory, process=None):
    """A Student of a function, in a process of its own or in this one.

    Parameters
    ----------
    fn : callable
    seconds, memory : float and int, or None
        As in `limited`.
    process : bool, optional
        Whether to use a process of its own; by default see `may_fork`.
    """
    limits = Limits(seconds, memory)
    if not (may_fork() if process is None else process):
        with state_kept(), our_names():
            yield Student(fn, limits, keeps_interrupts=not _Place.own_process)
        return

    with Child(Server(fn)) as child, our_names():
        yield Apart(fn, limits, child=child)


class Server:
    """What answers requests in a process of its own: each is the name of a method.

    A method returns an answer, or yields several, which are sent one by one.

    Parameters
    ----------
    fn : callable, optional
    """

    def __init__(self, fn=None):
        self.fn = fn

    def calls(self, calls, limits):
        for found, shared in performed(self.fn, calls, limits):
            yield {"calls": [found], "shared": shared}


@dataclass
class Apart(Student):
    """A student's function in a process of its own.

    Parameters
    ----------
    child : Child
        Of a `Server`.
    """

    child: object = None
    apart = True

    def answers(self, calls):
        found = self.child.ask_each(
            len(calls), self.limits.seconds, "calls", calls, self.limits)
        if any(len(each["calls"]) != 1 or type(each.get("shared")) is not bool for each in found):
            raise Ended("its process sent what is no answer")
        return [each["calls"][0] for each in found], bool(found and found[-1]["shared"])


def check_limits(seconds, memory, process):
    """Refuse limits that are none, and a process where the system has no fork."""
    if seconds is not None:
        check_number("check", "seconds", seconds, above=0, below=1e6)
    if memory is not None:
        check_whole("check", "memory", memory, least=1)
    if process and not can_fork():
        raise ValueError("check: process=True needs fork, which this system has not; leave "
                         "process out.")


def may_fork():
    """Whether a function is called in a process of its own by default.

    Not in a notebook, whose prints and plots would be lost; not where there is no fork (Windows,
    browsers) or where libraries do not survive one (macOS, and with JAX, TensorFlow or PyTorch
    loaded); and not twice.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return (can_fork() and sys.platform != "darwin" and not hasattr(shell, "kernel")
            and not any(name in sys.modules for name in NO_FORK)
            and not _Place.own_process)


class Child:
    """A forked process that answers requests until it is ended.

    Parameters
    ----------
    server : object
        With a method for each request, which returns an answer (see `messages`).
    prepare : callable, optional
        Runs in the child before the first request, such as to limit it.
    silent : bool
        Whether nothing that it prints is seen, and no other open file of the parent's is its own.
    """

    def __init__(self, server, prepare=None, silent=False):
        for stream in (sys.stdout, sys.stderr):       # or the child would write the same again
            with suppress(Exception):
                stream.flush()
        requests, self.writing = os.pipe()
        self.reading, answers = os.pipe()
        self.received = bytearray()                   # and not yet read
        parent, self.number, self.status, self.ended = os.getpid(), 0, None, None
        with warnings.catch_warnings():
            # of threads that run: BLAS, Numba and backend/pool.py are ready for a fork
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if not self.pid:
            try:
                os.close(self.reading)
                os.close(self.writing)
                _end_with(parent)
                if silent:
                    _keep_only(requests, answers)
                _begin(prepare)
                with our_names():
                    _serve(server, requests, answers)
            finally:
                os._exit(1)
        os.close(requests)
        os.close(answers)
        os.set_blocking(self.writing, False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def ask(self, seconds, name, *arguments):
        """The answer to a request, a dict; the parameters are those of `ask_each`."""
        return self.ask_each(1, seconds, name, *arguments)[0]

    def ask_each(self, n, seconds, name, *arguments):
        """The answers to a request, each a dict.

        Parameters
        ----------
        n : int
            How many there are.
        seconds : float or None
            Without an answer for so long, and some more, the child is ended.
        name : str
            Of the method of the server.
        *arguments
            Of this method.

        Raises
        ------
        Ended
            If the child has ended, or is ended here because it does not answer as it must.
        """
        if self.ended is not None:
            raise Ended(self.ended)
        try:
            self._send(messages.write_request((name, arguments)), _Deadline(seconds, self.pid))
            return [self._answer(_Deadline(seconds, self.pid)) for _ in range(n)]
        except messages.NoAnswer as error:
            self.end(str(error))
        except TimeoutError:
            self.end(f"it ran for more than {seconds:g} s and could not be interrupted")
        except EOFError:
            self._end_of_pipe()
        raise Ended(self.ended)

    def _answer(self, deadline):
        self.number += 1
        size = int.from_bytes(self._received(messages.WORD, deadline))
        if size > messages.MOST:
            raise messages.NoAnswer("its process sent what is too large for an answer")
        answer = messages.read_answer(self.number, self._received(size, deadline))
        if "failed" in answer:                        # it has changed what we need
            raise messages.NoAnswer("its process could not answer: "
                                    + messages.text_of(answer["failed"]))
        return answer

    def end(self, why=None):
        """End the child, with its session; what it has started in another one goes on."""
        if self.ended is not None:
            return
        for end in (os.killpg, os.kill) if self._is_alive() else (os.killpg,):
            with suppress(OSError):
                end(self.pid, signal.SIGKILL)
        if self.status is None:
            self.status = os.waitpid(self.pid, 0)[1]
        os.close(self.reading)
        os.close(self.writing)
        self.ended = _ending(self.status) if why is None else why

    def _is_alive(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if pid else None
        return self.status is None

    def _end_of_pipe(self):
        """Nobody holds the other end of a pipe: the child has ended, or has closed it."""
        deadline = time.monotonic() + GRACE
        while self._is_alive() and time.monotonic() < deadline:
            time.sleep(0.005)
        self.end("its process sent what is no answer" if self._is_alive() else None)

    def _wait(self, descriptor, event, deadline):
        poll = select.poll()
        poll.register(descriptor, event)
        while True:
            if deadline.is_over():
                raise TimeoutError
            if poll.poll(200):
                return
            if not self._is_alive():                  # what it has started may hold the pipe open
                raise EOFError

    def _send(self, data, deadline):
        while data:
            self._wait(self.writing, select.POLLOUT, deadline)
            try:
                data = data[os.write(self.writing, data):]
            except BrokenPipeError:
                raise EOFError from None

    def _received(self, size, deadline):
        while len(self.received) < size:
            self._wait(self.reading, select.POLLIN, deadline)
            chunk = os.read(self.reading, MIB)
            if not chunk:
                raise EOFError
            self.received += chunk
        found, self.received = bytes(self.received[:size]), self.received[size:]
        return found


class _Deadline:
    """When a child must have answered; while it, or this process, waits for a core it moves."""

    def __init__(self, seconds, child):
        self.seconds, self.stopwatch = seconds, Stopwatch("self", child)

    def is_over(self):
        return (self.seconds is not None and self.stopwatch.elapsed() > self.seconds + GRACE
                and self.stopwatch.counted(self.seconds) > self.seconds + GRACE)


def _end_with(parent):
    """Let Linux end this process when its parent ends: an endless loop would go on without it."""
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(END_WITH_PARENT, signal.SIGKILL)
        if os.getppid() != parent:                    # it has ended meanwhile
            os._exit(1)


def _keep_only(*descriptors):
    """Close all open files but these; stdout and stderr go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    low = 3
    for kept in (*sorted(descriptors), MOST_FILES):
        os.closerange(low, kept)
        low = kept + 1


def _begin(prepare):
    """What the child does first: it is no copy of its parent any more."""
    _Place.own_process = True
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGHUP):    # handlers are the parent's
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    gc.freeze()                                       # or a collection would copy all of its memory
    faulthandler.disable()                            # a crash is reported by the parent
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)      # nobody types an input
    if prepare is not None:
        prepare()


def _serve(server, requests, answers):
    """Answer requests in the child, until there are no more."""
    number, read, write = 0, os.read, os.write
    while size := int.from_bytes(_exactly(messages.WORD, requests, read)):
        name, arguments = messages.read_request(_exactly(size, requests, read))
        for number, answer in enumerate(_answers(server, name, arguments), number + 1):
            data = messages.write_answer(number, answer)
            for stream in (sys.stdout, sys.stderr):
                with suppress(Exception):
                    stream.flush()
            while data:
                data = data[write(answers, data):]
    os._exit(0)


def _answers(server, name, arguments):
    """The answers of a server's method, or that it failed."""
    try:
        found = getattr(server, name)(*arguments)
        yield from [found] if isinstance(found, dict) else found
    except Exception as error:
        yield {"failed": f"{type(error).__name__}: {error}"}


def _exactly(size, descriptor, read):
    """So many bytes of a pipe; b"" at its end."""
    chunks = []
    while size:
        chunks.append(read(descriptor, size))
        if not chunks[-1]:
            return b""
        size -= len(chunks[-1])
    return b"".join(chunks)


def _ending(status):
    """What became of a child that has ended."""
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        why = ", as of an endless recursion" if name == "SIGSEGV" else ""
        return f"it crashed Python ({name}{why})"
    return f"it ended Python (exit status {os.WEXITSTATUS(status)}); it must return"
