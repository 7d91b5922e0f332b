"""Checkpoints: one safetensors file with all of a run's state, written so that a reader never meets half of one."""

import hashlib
import json
import os
import struct
from pathlib import Path

import numpy as np

FORMAT = "numformer checkpoint, version 1"


class CheckpointError(Exception):
    """A file is no checkpoint, or not all of one; the message says what is wrong with which file."""


def write_atomically(path, data):
    """Write bytes so that `path` holds either all of the old content or all of the new, whatever happens on the way.

    The bytes go to a temporary file in the same folder, are forced to the disk, and take the name in one step; then the
    folder is forced to the disk too.

    Raises
    ------
    OSError
        If it cannot be written: no space, no permission. The old file is untouched and the temporary one removed.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)                                # a full disk does not say whose bytes it had no room for
        raise
    if os.name == "posix":                                            # elsewhere folders cannot be opened
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


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

    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}       # save() corrupts other layouts
    facts = json.dumps({"format": FORMAT, **facts, "sha256": _digest(arrays, facts)}, sort_keys=True)
    write_atomically(path, save(arrays, {"numformer": facts}))


def load_checkpoint(path):
    """Read a checkpoint and check that it is whole.

    Returns
    -------
    arrays : dict of str to ndarray
    facts : dict

    Raises
    ------
    CheckpointError
        If the file is truncated, foreign, or not as it was written.
    FileNotFoundError
        If there is none.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    data = Path(path).read_bytes()
    try:
        arrays = load(data)                                           # checks the header against the length before it reads
        length, = struct.unpack("<Q", data[:8])
        text = json.loads(data[8 : 8 + length]).get("__metadata__", {}).get("numformer")
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError, struct.error) as error:
        raise CheckpointError(f"{path} is no checkpoint, or was cut short ({error}).") from None
    try:
        facts = json.loads(text)
        kind, digest = facts.pop("format"), facts.pop("sha256")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise CheckpointError(f"{path} is a safetensors file, but not a checkpoint of numformer.") from None
    if kind != FORMAT:
        raise CheckpointError(f"{path} is a {kind!r}; this version reads {FORMAT!r}.")
    if digest != _digest(arrays, facts):
        raise CheckpointError(f"{path} was changed after it was written: its checksum does not fit.")
    return arrays, facts


def _digest(arrays, facts):
    """SHA-256 over every name, dtype, shape and byte, and over the facts."""
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape} ".encode())
        digest.update(arrays[name].data)
    return digest.hexdigest()
