"""The lock of a folder: one process, and one writer in it, at a time."""

import errno
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

try:
    import fcntl
except ImportError:                                                   # Windows
    fcntl = None
try:
    import msvcrt
except ImportError:                                                   # all but Windows
    msvcrt = None

NAME = ".lock"
# Of `flock` where a file system or a platform has no locks: work goes on without.
UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL}
WAIT_SECONDS = 1.0                                        # for the holder to write its id


class FolderInUse(Exception):
    """Another writer holds the folder; the message names its process."""


class FolderLock:
    """The lock of a folder, held from `acquire` to `release` or to the end of the process.

    The system holds it (`flock`), so that one of a killed process does not block. Its file,
    ``.lock``, contains the id of the process; it is removed with the lock. Where the system has no
    locks, as in a browser, there are none.

    Parameters
    ----------
    folder : path
        Must exist.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, FolderLock(folder):
    ...     FolderLock(folder).acquire()                              # doctest: +ELLIPSIS
    Traceback (most recent call last):
    numformer.runs.folder_lock.FolderInUse: ... is in use by process ...
    """

    def __init__(self, folder):
        self.folder = Path(folder)
        self.path = self.folder / NAME
        self._file = None

    def acquire(self):
        """Take the lock, unless this object holds it already.

        Raises
        ------
        FolderInUse
            If another writer holds it.
        OSError
            If its file cannot be written: no permission, no space.
        """
        if self._file is not None:
            return
        give_up = time.monotonic() + WAIT_SECONDS
        while self._file is None:
            file = _opened(self.path)
            try:
                if not _try_to_lock(file):
                    # The holder may be about to write its id, or to remove the file.
                    holder = file.read(20).strip()
                    if holder.isdigit() or time.monotonic() > give_up:
                        raise FolderInUse(_in_use(self.folder, holder))
                    time.sleep(0.01)
                elif _is_at(file, self.path):
                    self._file, file = file, None
            finally:
                if file is not None:
                    file.close()
        with suppress(OSError):                                       # a full disk: without the id
            self._file.truncate(0)
            self._file.write(f"{os.getpid()}\n".encode())

    def release(self):
        """Give the lock back and remove its file."""
        if self._file is not None:
            file, self._file = self._file, None
            if msvcrt:
                file.close()                                          # Windows removes no open file
            with suppress(OSError):
                self.path.unlink()                                    # while still held
            file.close()

    def __enter__(self):
        self.acquire()
        return self

    def __exit__(self, *_):
        self.release()


def has_locks():
    """Whether a lock keeps another writer out: tried, as in a browser `flock` does nothing."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        with _opened(path) as first, _opened(path) as second:
            return _try_to_lock(first) and not _try_to_lock(second)


def _opened(path):
    """The file of the lock, made if it is missing; without following a link."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0), 0o644)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file; remove it", str(path))
    return os.fdopen(descriptor, "r+b", buffering=0)


def _try_to_lock(file):
    """Lock an open file; False if another has."""
    try:
        if fcntl:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        elif msvcrt:
            file.seek(2**30)                                          # its text stays readable
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    except OSError as error:
        if error.errno in UNSUPPORTED:
            return True
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK):
            raise
        return False
    finally:
        file.seek(0)
    return True


def _is_at(file, path):
    """Whether the file is still at its path: its last holder may have removed it meanwhile."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(path))
    except FileNotFoundError:
        return False


def _in_use(folder, holder):
    if holder == str(os.getpid()).encode():
        return (f"{folder} is in use by process {os.getpid()}, this one: close the other RunFolder "
                "first, or choose another folder.")
    name = f"process {holder.decode()}" if holder.isdigit() else "another process"
    return f"{folder} is in use by {name}; wait until it ends, or choose another folder."
