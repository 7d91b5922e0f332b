"""Checkpoints: all of a run's state in one safetensors file, replaced in a single step."""

import errno
import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

import numpy as np

from numformer.files import MIB, size_in_words

VERSION = 2                                                           # of the format
MOST_HEADER = 16 * MIB                                # holds the names of arrays and the facts


class CheckpointError(Exception):
    """A file is no checkpoint, an old one, or not whole; the message names the file."""


def write_atomically(path, data):
    """Write bytes so that `path` holds either all of the old content or all of the new.

    The bytes go to a temporary file in the same folder, are flushed to the disk, and take the name
    in one step; then the folder is flushed too.

    Raises
    ------
    OSError
        If it cannot be written: no space, no permission. The old file stays and the temporary one
        is removed.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
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


def save_checkpoint(path, arrays, facts):
    """Write a checkpoint.

    Parameters
    ----------
    path : path
    arrays : dict of str to ndarray
    facts : dict
        Anything that JSON can hold: configs, tokenizer, progress.
    """
    from safetensors.numpy import save

    # save() corrupts arrays that are not C-contiguous
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    digest = checksum(facts, ((name, array.dtype, array.shape, [array.data])
                              for name, array in sorted(arrays.items())))
    text = json.dumps({"format": format_of(VERSION), **facts, "sha256": digest}, sort_keys=True)
    data = save(arrays, {"numformer": text})
    if int.from_bytes(data[:8], "little") > MOST_HEADER:
        raise ValueError(f"save_checkpoint: {path} would have a header of more than "
                         f"{size_in_words(MOST_HEADER)}; use a smaller vocabulary.")
    write_atomically(path, data)


def format_of(version):
    """The name of a version of the format."""
    return f"numformer checkpoint, version {version}"


def checksum(facts, arrays):
    """SHA-256 over the facts, and over every name, dtype, shape and byte of the arrays.

    Parameters
    ----------
    facts : dict
    arrays : iterable of (name, dtype, shape, iterable of bytes)
        In the order of their names.
    """
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name, dtype, shape, parts in arrays:
        digest.update(f"{name} {dtype} {shape} ".encode("utf-8", "surrogatepass"))
        for part in parts:
            digest.update(part)
    return digest.hexdigest()
