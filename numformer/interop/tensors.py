"""Files of safetensors: read by memory map, one tensor at a time, and written in the same way.

The layout is that of https://github.com/huggingface/safetensors: eight bytes with the length of a
header in JSON, the header, and all arrays one after the other. The library of that name reads no
bfloat16 into NumPy and copies what it reads; here a tensor is mapped, used, and let go.
"""

import json
import os
import re
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

from numformer.files import GIB, MIB, open_file, parse_json, read_file, whole_file

MOST, MOST_HEADER = 64 * GIB, 100 * MIB               # of a file, and of its header
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
FLOATS = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "F16": np.dtype("<f2"),
          "BF16": np.dtype("<u2")}                    # NumPy has no bfloat16: its bits
_ITEMSIZE = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "I16": 2, "U16": 2, "I32": 4,
             "U32": 4, "I64": 8, "U64": 8, **{name: kind.itemsize for name, kind in FLOATS.items()}}


class Tensor(NamedTuple):
    """Where a tensor is: its dtype by safetensors' name, its shape, its file, its first byte."""

    dtype: str
    shape: tuple
    path: Path
    start: int

    def mapped(self):
        """Its values in the file, read-only; those of bfloat16 as bits."""
        if not prod(self.shape):
            return np.empty(self.shape, FLOATS[self.dtype])
        return np.memmap(self.path, FLOATS[self.dtype], "r", self.start,
                         self.shape).view(np.ndarray)

    def read(self):
        """Its values as floats: mapped, or widened from bfloat16."""
        return widened(self.mapped())


def widened(x):
    """float32 of the bits of bfloat16, which are its upper half; other numbers as they are.

    Examples
    --------
    >>> widened(np.array([0x3f80, 0xc040], np.uint16))
    array([ 1., -3.], dtype=float32)
    """
    if x.dtype != FLOATS["BF16"]:
        return x
    bits = x.astype(np.uint32)
    bits <<= 16
    return bits.view(np.float32)


def tensors_of(folder):
    """All tensors of a folder by name, of one file or of several that an index names.

    Returns
    -------
    dict of str to Tensor

    Raises
    ------
    ValueError
        If there is no such file, it is cut short or malformed, or holds a tensor that is no float.
    """
    folder = Path(folder)
    if (folder / INDEX).exists():
        return _of_shards(folder)
    if not (folder / WEIGHTS).exists():
        pickles = [path.name for path in sorted(folder.glob("*.bin"))]
        if pickles:
            raise ValueError(f"{folder} has its weights in {pickles[0]}, a pickle, which can run "
                             f"code when it is read; convert it to {WEIGHTS}.")
        raise ValueError(f"{folder} has no {WEIGHTS} and no {INDEX}; give the folder of a "
                         "published model.")
    return header_of(folder / WEIGHTS)


def header_of(path):
    """The tensors of one file; ValueError if it is cut short or malformed."""
    with open_file(path, MOST) as file:
        size = os.fstat(file.fileno()).st_size
        try:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(MOST_HEADER, size - 8):
                raise ValueError(f"its header would have {length} bytes")
            header = parse_json(file.read(length))
            header.pop("__metadata__", None)
            return _placed(header, Path(path), 8 + length, size)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is no file of safetensors, or was cut short "
                             f"({error}).") from None


def _placed(header, path, start, size):
    """{name: Tensor}; together they must fill the file."""
    found, ends = {}, []
    for name, entry in header.items():
        shape, (begin, end) = tuple(entry["shape"]), entry["data_offsets"]
        if any(type(number) is not int or number < 0 for number in (*shape, begin, end)):
            raise ValueError("a size in its header is no whole number")
        if entry["dtype"] not in _ITEMSIZE:
            raise ValueError(f"{name} is of the unknown dtype {str(entry['dtype'])[:20]}")
        if end - begin != prod(shape) * _ITEMSIZE[entry["dtype"]]:
            raise ValueError(f"{name} has another size than its shape")
        found[name] = Tensor(entry["dtype"], shape, path, start + begin)
        ends.append((begin, end))
    filled = 0
    for begin, end in sorted(ends):
        if begin != filled:
            raise ValueError("its arrays overlap, or leave a gap")
        filled = end
    if start + filled != size:
        raise ValueError(f"its arrays need {filled} bytes, but {size - start} follow the header")
    return found


def _of_shards(folder):
    index = folder / INDEX
    try:
        places = parse_json(read_file(index, MOST_HEADER))["weight_map"]
        files = sorted(set(places.values()))
        wrong = [name for name in files if not re.fullmatch(r"[\w.-]+\.safetensors", name)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{index} is no index of safetensors ({error}).") from None
    if wrong:
        raise ValueError(f"{index} names {wrong[0]!r}, which is no file of its own folder.")
    absent = [name for name in files if not (folder / name).exists()]
    if absent:
        raise ValueError(f"{index} names {absent[0]}, which is not there; copy all shards.")
    found = {}
    for file in files:
        for name, tensor in header_of(folder / file).items():
            if places.get(name) != file:
                raise ValueError(f"{folder / file} holds {name}, but {index} does not have it "
                                 "there.")
            found[name] = tensor
    missing = [name for name in places if name not in found]
    if missing:
        raise ValueError(f"{index} has {missing[0]} in {places[missing[0]]}, which does not hold "
                         "it.")
    return found


def write_tensors(path, entries):
    """Write a file of safetensors, array after array; it is there as a whole or not at all.

    Parameters
    ----------
    path : path
    entries : list of (name, dtype, shape, callable)
        The callable returns the array, float32 or float64; one is in memory at a time.
    """
    header, start = {"__metadata__": {"format": "pt"}}, 0
    for name, dtype, shape, _ in entries:
        end = start + prod(shape) * dtype.itemsize
        kind = next(kind for kind, one in FLOATS.items() if one == dtype.newbyteorder("<"))
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)                   # arrays begin at a multiple of 8 bytes
    with whole_file(path) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, dtype, _, array in entries:
            file.write(np.ascontiguousarray(array(), dtype.newbyteorder("<")).data)
