"""Files of safetensors, which hold named arrays: read one at a time, and written as a whole.

The layout is that of https://github.com/huggingface/safetensors: eight bytes with the length of a
header in JSON, the header, and all arrays one after the other. Nothing in such a file is code.
Checkpoints are files of this kind, and so are published weights.

Nothing of the size that a header merely promises is allocated.
"""

import json
import os
import re
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

from numformer.files.reading import GIB, MIB, open_file, parse_json, size_in_words
from numformer.files.writing import whole_file
from numformer.shapes_only import MOST_ARRAYS

MOST, MOST_HEADER = 64 * GIB, 100 * MIB               # of a file, and of its header
# In the order in which the library writes arrays. NumPy has no bfloat16: its bits stand for it
DTYPES = {name: np.dtype(kind) for name, kind in (
    ("U64", "<u8"), ("I64", "<i8"), ("F64", "<f8"), ("F32", "<f4"), ("U32", "<u4"), ("I32", "<i4"),
    ("BF16", "<u2"), ("F16", "<f2"), ("U16", "<u2"), ("I16", "<i2"), ("I8", "i1"), ("U8", "u1"),
    ("BOOL", "?"))}
_PARTS = 16                                           # of an array: strings, numbers, brackets
_ITEMSIZE = {"F8_E4M3": 1, "F8_E5M2": 1, **{name: kind.itemsize for name, kind in DTYPES.items()}}
_NAMES = {kind: name for name, kind in DTYPES.items() if name != "BF16"}


class Tensor(NamedTuple):
    """Where a tensor is: its dtype by safetensors' name, its shape, its file, its first byte."""

    dtype: str
    shape: tuple
    path: Path
    start: int

    @property
    def nbytes(self):
        return prod(self.shape) * _ITEMSIZE[self.dtype]

    def mapped(self):
        """Its values in the file, read-only; those of bfloat16 as bits."""
        if not prod(self.shape):
            return np.empty(self.shape, DTYPES[self.dtype])
        return np.memmap(self.path, DTYPES[self.dtype], "r", self.start,
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
    if x.dtype != DTYPES["BF16"]:
        return x
    bits = x.astype(np.uint32)
    bits <<= 16
    return bits.view(np.float32)


def read_header(path, file, most=MOST_HEADER, arrays=None):
    """(tensors, metadata) of an open file.

    Parameters
    ----------
    path : path
        Of the file.
    file : binary file
        At its beginning.
    most : int
        Largest size of the header, in bytes.
    arrays : int, optional
        Most arrays that it may name; those of a model by default.

    Returns
    -------
    tensors : dict of str to Tensor
        Together they fill the file.
    metadata : dict or None

    Raises
    ------
    ValueError, KeyError, TypeError, AttributeError
        If the file is cut short, malformed or something else.
    """
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(most, size - 8):
        raise ValueError(f"its header would have {length} bytes")
    header = parse_names(file.read(length), arrays)
    metadata = header.pop("__metadata__", None)
    return _placed(header, Path(path), 8 + length, size), metadata


def parse_names(data, most=None):
    """The value of bytes in JSON that name arrays: a header, or an index of files.

    Values of JSON take many times the memory of their text, so its parts are counted before it is
    read. What is inside strings, such as metadata, does not count.

    Raises
    ------
    ValueError
        If it is no JSON, or has more parts than `most` arrays need.
    """
    most = MOST_ARRAYS if most is None else most
    if len(data) > MIB:                               # a shorter one is read in no time
        text = data.replace(rb"\\", b"").replace(rb"\"", b"")
        parts = text.count(b'"')
        if parts <= _PARTS * most:
            outside = re.sub(rb'"[^"]*"', b"", text)
            parts = max(_PARTS * (outside.count(b"{") - 1),
                        sum(map(outside.count, (b",", b"[", b"{"))))
        if parts > _PARTS * most:
            raise ValueError(f"it names more than {most:,} arrays, or has more parts than so many "
                             "need")
    return parse_json(data)


def tensors_of_file(path):
    """The tensors of one file by name; ValueError if it is cut short or malformed."""
    with open_file(path, MOST) as file:
        try:
            return read_header(path, file)[0]
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
        found[name] = Tensor(entry["dtype"], shape, path, start + begin)
        if end - begin != found[name].nbytes:
            raise ValueError(f"{name} has another size than its shape")
        ends.append((begin, end))
    filled = 0
    for begin, end in sorted(ends):
        if begin != filled:
            raise ValueError("its arrays overlap, or leave a gap")
        filled = end
    if start + filled != size:
        raise ValueError(f"its arrays need {filled} bytes, but {size - start} follow the header")
    return found


def write_tensors(path, entries, metadata, most=MOST_HEADER):
    """Write a file of safetensors, array after array; it is there as a whole or not at all.

    Parameters
    ----------
    path : path
    entries : iterable of (name, dtype, shape, callable)
        The dtype is NumPy's, or "BF16" for bits of bfloat16. The callable returns the array; one is
        in memory at a time. The bytes are those of the library where dtypes are in the order of
        `DTYPES`, and names in order for each.
    metadata : dict of str to str
    most : int
        Largest size of the header, in bytes.

    Raises
    ------
    ValueError
        If the header is larger, or a dtype has no name there.
    OSError
        If the file cannot be written.
    """
    header, start, arrays = {"__metadata__": metadata}, 0, []
    for name, dtype, shape, array in entries:
        kind = dtype if dtype == "BF16" else None
        dtype = DTYPES[kind] if kind else np.dtype(dtype).newbyteorder("<")
        if dtype not in _NAMES:
            raise ValueError(f"{name} is {dtype}, which safetensors does not have.")
        end = start + prod(shape) * dtype.itemsize
        header[name] = {"dtype": kind or _NAMES[dtype], "shape": list(shape),
                        "data_offsets": [start, end]}
        arrays.append((dtype, array))
        start = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)                   # arrays begin at a multiple of 8 bytes
    if len(text) > most:
        raise ValueError(f"{path} would have a header of more than {size_in_words(most)}; use a "
                         "smaller vocabulary.")
    with whole_file(path) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for dtype, array in arrays:
            file.write(np.ascontiguousarray(array(), dtype).data)


def order_of(dtype):
    """The place of a dtype in the order in which the library writes arrays."""
    return list(DTYPES).index(_NAMES[np.dtype(dtype).newbyteorder("<")])
