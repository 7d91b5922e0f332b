"""Write files so that each is there as a whole or not at all."""

import errno
import hashlib
import os
import re
import shutil
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

LONGEST_NAME = 255                                    # bytes of a name, on most file systems


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
    temporary = temporary_name(path)
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


def temporary_name(path):
    """A hidden name of this process next to a path.

    Examples
    --------
    >>> len(temporary_name(Path("x" * 250)).name) <= LONGEST_NAME
    True
    """
    end = f".{os.getpid()}.tmp"
    name = f".{path.name}{end}"
    if len(os.fsencode(name)) > LONGEST_NAME:
        name = f".{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:32]}{end}"
    return path.with_name(name)


@contextmanager
def whole_folders(*paths):
    """New folders, to be filled under other names next to them: they are there together or not.

    Parameters
    ----------
    *paths : path
        None of them exists; folders above them are made.

    Yields
    ------
    list of Path
        Folders to write into. Each takes its name at the end, in one step.

    Raises
    ------
    OSError
        If something cannot be written; it names what it would have been. Nothing stays, as after
        any other error.
    """
    paths = [Path(path) for path in paths]
    temporary, named = [temporary_name(path) for path in paths], []
    with ExitStack() as stack:
        try:
            for path, folder in zip(paths, temporary):
                stack.enter_context(folders_above(path))
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
            yield temporary
            for path, folder in zip(paths, temporary):
                os.rename(folder, path)
                named.append(path)
        except BaseException as error:
            for folder in (*temporary, *named):
                shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, OSError):
                where = str(error.filename or temporary[0])
                for path, folder in zip(paths, temporary):
                    where = where.replace(str(folder), str(path))
                error.filename, error.filename2 = where, None
            raise


@contextmanager
def undone_after_errors(folder):
    """What is put into a folder inside is removed after an error; the folder too if it is new."""
    folder = Path(folder)
    with folders_above(folder / "file"):
        before = set(folder.iterdir())
        try:
            yield
        except BaseException:
            with suppress(OSError):
                for path in set(folder.iterdir()) - before:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            raise


@contextmanager
def folders_above(path):
    """Make the folders above a path; after an error those that are new and empty are removed."""
    parents = Path(path).parents
    new = [folder for folder in parents if not folder.exists()]
    parents[0].mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):                       # what another process put there stays
            for folder in new:
                folder.rmdir()
        raise


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
