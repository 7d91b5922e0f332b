"""What a judge's process does when its grader ends, however that ends: nothing of it stays behind.

The grader holds the other end of the judge's stdin. The operating system closes it when the grader
ends, also by a signal that no program can answer. Whatever the student's file does meanwhile, the
process that waits for this is another one.
"""

import ctypes
import os
import secrets
import shutil
import signal
import sys
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path

from numformer.backend import can_fork

PREFIX = "numformer-grade-"                           # of the name of a judge's folder
ADOPT = 36                                            # PR_SET_CHILD_SUBREAPER of Linux
SECONDS = 3.0                                         # for what is killed to end
CLEARING = 60.0                                       # seconds for the removal of a folder


def live_with_grader():
    """Go on in a forked child; this process waits for its end, and for that of the grader.

    Call it after stdin has been read. If the child ends, this process ends in the same way. If the
    grader ends first, the judge's folder is removed and the whole group of processes is killed.
    On Linux everything that the child has started is killed in both cases, also what has left the
    group. Where there is no fork, a thread waits for the grader.
    """
    _adopt()
    stdin = os.dup(sys.stdin.fileno())                # no process that it starts inherits it
    sys.stdin.close()
    child = None
    if can_fork():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)       # of BLAS threads, which wait
            child = os.fork()
    if child == 0:
        os.close(stdin)
        return
    one_end = threading.Lock()                        # whoever has it ends this process
    threading.Thread(target=_end_with_grader, args=(stdin, child, one_end), daemon=True).start()
    if child is not None:
        with suppress(ChildProcessError):             # the other has waited for it already
            status = os.waitpid(child, 0)[1]
        with one_end:                                 # not while the other removes the folder
            _kill_adopted()
            _end_as(status)


def _end_with_grader(stdin, child, one_end):
    while os.read(stdin, 1):                          # b"" once the other end is closed
        pass
    one_end.acquire()
    if child is None:
        remove_this_folder()
        os._exit(1)
    with suppress(OSError):
        os.kill(child, signal.SIGKILL)                # it writes nothing into the folder any more
    _kill_adopted()
    remove_this_folder()
    os.killpg(0, signal.SIGKILL)                      # what the student's file has started, and us


def _adopt():
    """Let Linux make this process the parent of what its descendants leave behind."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(ADOPT, 1, 0, 0, 0)


def _kill_adopted():
    """Kill all children until there are none: those of a child that was killed are ours next."""
    deadline = time.monotonic() + SECONDS
    while sys.platform == "linux" and time.monotonic() < deadline:
        for path in Path("/proc/self/task").glob("*/children"):
            with suppress(OSError):                   # it has ended meanwhile
                for child in path.read_text().split():
                    os.kill(int(child), signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def _end_as(status):
    """End like a child, with its exit status or by the same signal."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        with suppress(OSError):                       # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def remove_this_folder():
    """Remove the folder in which this process runs, if a grader has made it."""
    folder = Path.cwd()
    if folder.name.startswith(PREFIX):
        remove_folder(folder)


def remove_folder(folder):
    """Remove a folder, also of folders inside each other, and of some that may not be read.

    A program of the student's that still runs may exchange folders for links meanwhile. Nothing is
    followed: all names are looked up in folders that are open here.
    """
    if not (shutil.rmtree.avoids_symlink_attacks and hasattr(os, "O_NOFOLLOW")):      # Windows
        shutil.rmtree(folder, ignore_errors=True)
        return
    with suppress(OSError):
        top, deadline = _opened(folder), time.monotonic() + CLEARING
        try:
            while (any([_is_removed(name, top) for name in os.listdir(top)])
                   and time.monotonic() < deadline):
                pass
        finally:
            os.close(top)
        os.rmdir(folder)


def _is_removed(name, top):
    """Remove an entry of an open folder; the folders that are in it are moved to the top."""
    with suppress(OSError):                           # exchanged meanwhile: the next round sees it
        if _is_unlinked(name, top):
            return True
        here = _opened(name, top)
        try:
            for inner in os.listdir(here):
                if not _is_unlinked(inner, here):
                    _allow_all(inner, here)           # a folder that is moved must be writable
                    os.rename(inner, secrets.token_hex(16), src_dir_fd=here, dst_dir_fd=top)
        finally:
            os.close(here)
        os.rmdir(name, dir_fd=top)
        return True
    return False


def _is_unlinked(name, parent):
    try:
        os.unlink(name, dir_fd=parent)
    except (IsADirectoryError, PermissionError):      # the second as other systems say it
        return False
    return True


def _opened(name, parent=None):
    """A descriptor of a folder in an open one, which is made readable; no link is followed."""
    _allow_all(name, parent)
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)


def _allow_all(name, parent):
    with suppress(OSError, NotImplementedError):      # a link, say: it is not followed
        os.chmod(name, 0o700, dir_fd=parent, follow_symlinks=False)
