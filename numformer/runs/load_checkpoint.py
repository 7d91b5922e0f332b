"""Load a checkpoint: the header first, then the checksum, and only then the arrays.

The file is read twice rather than kept in memory before its checksum is known to fit.
"""

import re
from math import prod

import numpy as np

from numformer.files import MIB, open_file, parse_json
from numformer.files.tensors import DTYPES, MOST, read_header
from numformer.runs.checkpoint import (
    MOST_HEADER, VERSION, CheckpointError, checksum, format_of)
from numformer.shapes_only import MOST_ARRAYS

ARRAYS = 4 * MOST_ARRAYS                              # with those of the optimizer
_CHUNK = MIB


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
    FileError
        If it is no regular file, or larger than 64 GiB.
    FileNotFoundError
        If there is none.
    """
    with open_file(path, MOST) as file:
        try:
            tensors, metadata = read_header(path, file, MOST_HEADER, ARRAYS)
            if not isinstance(metadata, dict):
                raise ValueError("its header has no metadata")
            dtypes = {name: DTYPES[tensor.dtype] for name, tensor in tensors.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(f"{path} is no checkpoint, or was cut short ({error}).") from None
        facts, digest = _facts(path, metadata)
        try:
            fits = digest == _checksum(file, tensors, dtypes, facts)
        except RecursionError:                        # brackets that can be read, but not written
            fits = False
        if not fits:
            raise CheckpointError(f"{path} was changed after it was written: "
                                  "its checksum does not fit.")
        try:
            return {name: _read(file, tensor, dtypes[name])
                    for name, tensor in tensors.items()}, facts
        except ValueError as error:
            raise CheckpointError(f"{path} is no checkpoint, or was cut short ({error}).") from None


def _read(file, tensor, dtype):
    file.seek(tensor.start)
    return np.fromfile(file, dtype, prod(tensor.shape)).reshape(tensor.shape)


def _facts(path, metadata):
    """(facts, their checksum) of the metadata."""
    try:
        text, = metadata.values()
        facts = parse_json(metadata["numformer"])
        kind, digest = facts.pop("format"), facts.pop("sha256")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CheckpointError(f"{path} is a safetensors file, but not a checkpoint of "
                              "numformer.") from None
    _check_version(path, kind)
    return facts, digest


def _check_version(path, kind):
    if kind == format_of(VERSION):
        return
    found = re.fullmatch(format_of(r"(\d{1,9})"), str(kind))
    if found and int(found[1]) < VERSION:
        raise CheckpointError(f"{path} was written by an older numformer, in version {found[1]} of "
                              f"the checkpoint format; this one reads version {VERSION}, in which "
                              "parameters have other names: train the model anew.")
    raise CheckpointError(f"{path} is a {kind!r}; this numformer reads {format_of(VERSION)!r}.")


def _checksum(file, tensors, dtypes, facts):
    """The checksum of the facts and of the arrays in the file."""
    def parts(tensor):
        file.seek(tensor.start)
        left = tensor.nbytes
        while left and (chunk := file.read(min(_CHUNK, left))):
            yield chunk
            left -= len(chunk)

    return checksum(facts, ((name, dtypes[name], tensor.shape, parts(tensor))
                            for name, tensor in sorted(tensors.items())))
