"""Load a checkpoint: the header first, then the checksum, and only then the arrays.

Nothing of the size that a header merely promises is allocated, and the file is read twice rather
than kept in memory before its checksum is known to fit.
"""

import os
import re
from math import prod

import numpy as np

from numformer.files import GIB, MIB, open_file, parse_json
from numformer.runs.checkpoint import (
    MOST_HEADER, VERSION, CheckpointError, checksum, format_of)

MOST = 64 * GIB                                       # of a file
_CHUNK = MIB
_DTYPES = {                                           # names of safetensors
    "BOOL": np.bool_, "I8": np.int8, "U8": np.uint8, "I16": np.int16, "U16": np.uint16,
    "I32": np.int32, "U32": np.uint32, "I64": np.int64, "U64": np.uint64, "F16": np.float16,
    "F32": np.float32, "F64": np.float64,
}


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
    from safetensors import SafetensorError
    from safetensors.numpy import load

    with open_file(path, MOST) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            header, start = _header(file, size)
            places = _places(header, size - start)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointError(f"{path} is no checkpoint, or was cut short ({error}).") from None
        facts, digest = _facts(path, header)
        try:
            fits = digest == _checksum(file, start, places, facts)
        except RecursionError:                        # brackets that can be read, but not written
            fits = False
        if not fits:
            raise CheckpointError(f"{path} was changed after it was written: "
                                  "its checksum does not fit.")
        file.seek(0)
        try:
            return load(file.read(size)), facts
        except (SafetensorError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path} is no checkpoint, or was cut short ({error}).") from None


def _header(file, size):
    """The header, and the position at which the data begin."""
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(MOST_HEADER, size - 8):
        raise ValueError(f"its header would have {length} bytes")
    header = parse_json(file.read(length))
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict):
        raise ValueError("its header has no metadata")
    return {"arrays": header, "metadata": metadata}, 8 + length


def _places(header, size):
    """{name: (dtype, shape, begin, end)}; together they must fill all of `size` bytes."""
    places = {}
    for name, entry in header["arrays"].items():
        dtype, shape, (begin, end) = _DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
        if any(type(number) is not int or number < 0 for number in (*shape, begin, end)):
            raise ValueError("a size in its header is no whole number")
        if end - begin != prod(shape) * np.dtype(dtype).itemsize:
            raise ValueError("an array has another size than its shape")
        places[name] = np.dtype(dtype), tuple(shape), begin, end
    filled = 0
    for begin, end in sorted(place[2:] for place in places.values()):
        if begin != filled:
            raise ValueError("its arrays overlap, or leave a gap")
        filled = end
    if filled != size:
        raise ValueError(f"its arrays need {filled} bytes, but {size} follow the header")
    return places


def _facts(path, header):
    """(facts, their checksum) of the metadata."""
    try:
        text, = header["metadata"].values()
        facts = parse_json(header["metadata"]["numformer"])
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


def _checksum(file, start, places, facts):
    """The checksum of the facts and of the arrays in the file."""
    def parts(begin, end):
        file.seek(start + begin)
        while begin < end and (chunk := file.read(min(_CHUNK, end - begin))):
            yield chunk
            begin += len(chunk)

    return checksum(facts, ((name, dtype, shape, parts(begin, end))
                            for name, (dtype, shape, begin, end) in sorted(places.items())))
