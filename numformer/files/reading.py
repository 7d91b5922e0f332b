"""Read files that others wrote: regular ones of limited size, and JSON without surprises.

Every module that reads a file reads it here. A path may lead to a device that never ends, to a pipe
that nobody writes into, or to a file that grows; its content may be nested so deeply, or hold
numbers so long, that parsing it fails in unexpected ways.
"""

import errno
import json
import os
import stat
import time
from contextlib import contextmanager

KIB, MIB, GIB = 2**10, 2**20, 2**30
WAIT_SECONDS = 3                                      # for somebody to open the other end of a pipe
MOST_DIGITS = 100                                     # of an integer in JSON
_CHUNK = MIB


class FileError(ValueError):
    """A file is of the wrong kind, or too large; the message names it and the cure."""


@contextmanager
def open_file(path, most, pipes=False, follow_links=True):
    """Open a file for reading in binary, after checks of its kind and size.

    Parameters
    ----------
    path : path
    most : int
        Largest size in bytes. A file may grow while it is read: read with a bound, too.
    pipes : bool
        Whether a pipe is allowed, such as ``<(...)`` of a shell.
    follow_links : bool
        Whether the path may be a symbolic link. It has to end at a regular file in any case.

    Yields
    ------
    binary file

    Raises
    ------
    FileError
        If it is a device, a socket, a pipe or a link that is not allowed, or too large.
    OSError
        If it cannot be opened: it is missing, a folder, or not permitted.
    """
    _check_kind(path, os.stat(path, follow_symlinks=follow_links), most, pipes)
    # A pipe without a writer would block here; a file may be replaced after the check above.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags if follow_links else flags | getattr(os, "O_NOFOLLOW", 0))
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        _check_kind(path, status, most, pipes)
        if stat.S_ISFIFO(status.st_mode):
            os.set_blocking(descriptor, True)
        yield file


def read_file(path, most, pipes=False, follow_links=True):
    """The bytes of a file; the arguments and errors are those of `open_file`.

    Examples
    --------
    >>> b'def read_file(' in read_file(__file__, most=MIB)
    True
    """
    with open_file(path, most, pipes, follow_links) as file:
        status = os.fstat(file.fileno())
        chunks, total = [], 0
        chunk = (_first_chunk(path, file) if stat.S_ISFIFO(status.st_mode)
                 else file.read(status.st_size + 1))
        while chunk:
            total += len(chunk)
            if total > most:
                raise FileError(_too_large(path, most))
            chunks.append(chunk)
            chunk = file.read(_CHUNK)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def parse_json(data):
    r"""The value of a JSON text. Unlike `json.loads` it takes only what JSON allows.

    Parameters
    ----------
    data : str or bytes

    Raises
    ------
    ValueError
        If it is no JSON, holds NaN, infinity, a key twice or an integer of more than 100 digits,
        or is nested too deeply.

    Examples
    --------
    >>> parse_json('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    >>> parse_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: the key 'a' appears twice
    """
    text = data if isinstance(data, str) else bytes(data).decode()
    try:
        return json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_no_constant,
                          parse_int=_short_integer, parse_float=_finite)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def size_in_words(size):
    """A number of bytes in the largest unit that divides it.

    Examples
    --------
    >>> size_in_words(512 * MIB), size_in_words(1000)
    ('512 MiB', '1000 bytes')
    """
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} bytes"


def _check_kind(path, status, most, pipes):
    mode = status.st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode) and not (pipes and stat.S_ISFIFO(mode)):
        kind = ("a link" if stat.S_ISLNK(mode) else "a pipe" if stat.S_ISFIFO(mode)
                else "a socket" if stat.S_ISSOCK(mode) else "a device")
        raise FileError(f"{path} must be a regular file, but is {kind}; replace it, or give "
                        "another path.")
    if status.st_size > most:
        raise FileError(_too_large(path, most))


def _too_large(path, most):
    return (f"{path} is too large: it holds more than {size_in_words(most)}; give a smaller file, "
            "or a part of it.")


def _first_chunk(path, file):
    """The first bytes of a pipe; waits a little for a writer, and then as long as it writes."""
    until = time.monotonic() + WAIT_SECONDS
    while not (chunk := file.read1(_CHUNK)) and time.monotonic() < until:
        time.sleep(0.02)                              # no end of the pipe, but no writer yet
    return chunk


def _unique_keys(pairs):
    found = dict(pairs)
    if len(found) < len(pairs):
        seen = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"the key {twice[:40]!r} appears twice")
    return found


def _no_constant(name):
    raise ValueError(f"{name} is no number of JSON")


def _short_integer(digits):
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"an integer has {len(digits)} digits, more than {MOST_DIGITS}")
    return int(digits)


def _finite(digits):
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{digits[:40]} is too large")
    return value
