"""Checkpoints: all of a run's state in one safetensors file, replaced in a single step."""

import errno
import hashlib
import json
import os
import re
import struct
from contextlib import suppress
from pathlib import Path

import numpy as np

VERSION = 2                                                           # of the format


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
    facts = {"format": _format(VERSION), **facts, "sha256": _digest(arrays, facts)}
    write_atomically(path, save(arrays, {"numformer": json.dumps(facts, sort_keys=True)}))


def load_checkpoint(path):
    """Read a checkpoint and check that it is whole.

    Returns
    -------
    arrays : dict of str to ndarray
    facts : dict

    Raises
    ------
    CheckpointError
        If the file is truncated, foreign, of another version, or not as it was written.
    FileNotFoundError
        If there is none.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    data = Path(path).read_bytes()
    try:
        arrays = load(data)                                           # checks the header's sizes
        length, = struct.unpack("<Q", data[:8])
        text = json.loads(data[8 : 8 + length]).get("__metadata__", {}).get("numformer")
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError,
            struct.error) as error:
        raise CheckpointError(f"{path} is no checkpoint, or was cut short ({error}).") from None
    try:
        facts = json.loads(text)
        kind, digest = facts.pop("format"), facts.pop("sha256")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise CheckpointError(f"{path} is a safetensors file, but not a checkpoint of "
                              "numformer.") from None
    _check_version(path, kind)
    if digest != _digest(arrays, facts):
        raise CheckpointError(f"{path} was changed after it was written: "
                              "its checksum does not fit.")
    return arrays, facts


def part_of(arrays, prefix):
    """The arrays whose names begin with a prefix, by the names without it.

    Examples
    --------
    >>> part_of({"model.a": 1, "optimizer.b": 2}, "model.")
    {'a': 1}
    """
    return {name.removeprefix(prefix): array
            for name, array in arrays.items() if name.startswith(prefix)}


def _format(version):
    return f"numformer checkpoint, version {version}"


def _check_version(path, kind):
    if kind == _format(VERSION):
        return
    found = re.fullmatch(_format(r"(\d+)"), str(kind))
    if found and int(found[1]) < VERSION:
        raise CheckpointError(f"{path} was written by an older numformer, in version {found[1]} of "
                              f"the checkpoint format; this one reads version {VERSION}, in which "
                              "parameters have other names: train the model anew.")
    raise CheckpointError(f"{path} is a {kind!r}; this numformer reads {_format(VERSION)!r}.")


def _digest(arrays, facts):
    """SHA-256 over every name, dtype, shape and byte, and over the facts."""
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape} ".encode())
        digest.update(arrays[name].data)
    return digest.hexdigest()
