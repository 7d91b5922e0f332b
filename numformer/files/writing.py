"""Write files so that each is there as a whole or not at all."""

import errno
import os
import re
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def whole_file(path):
    """Open a file for writing in binary: `path` holds all of the old content or all of the new.

    The bytes go to a temporary file in the same folder, are flushed to the disk, and take the name
    in one step; then the folder is flushed too.

    Yields
    ------
    binary file

    Raises
    ------
    OSError
        If it cannot be written: no space, no permission. The old file stays and the temporary one
        is removed, as after any other error.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.unlink(missing_ok=True)
        with open(temporary, "xb") as file:                           # never what was put there
            yield file
            file.flush()
            flush_to_disk(file.fileno(), path)
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            error.filename, error.filename2 = str(path), None         # a full disk leaves it out
        raise
    if os.name == "posix":                                            # Windows opens no folders
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            flush_to_disk(folder, path.parent)
        finally:
            os.close(folder)


def write_atomically(path, data):
    """Write bytes as a `whole_file`."""
    with whole_file(path) as file:
        file.write(data)


def remove_unfinished(folder, names):
    """Remove temporary files of a `whole_file` whose process was killed while it wrote.

    Parameters
    ----------
    folder : Path
    names : str
        A regular expression: the files of this folder that are ours.
    """
    for path in folder.glob(".*.tmp"):
        if re.fullmatch(rf"\.({names})\.\d+\.tmp", path.name):
            path.unlink()


def flush_to_disk(descriptor, path):
    """`os.fsync`, where it is possible: some file systems have it for files alone, or not at all.

    Raises
    ------
    OSError
        If the disk fails or is full; it names `path`.
    """
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
            error.filename = str(path)
            raise
