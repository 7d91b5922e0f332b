"""Checkpoints: all of a run's state in one safetensors file, replaced in a single step."""

import hashlib
import json

import numpy as np

from numformer.files import MIB
from numformer.files.tensors import order_of, write_tensors

VERSION = 2                                                           # of the format
MOST_HEADER = 16 * MIB                                # holds the names of arrays and the facts


class CheckpointError(Exception):
    """A file is no checkpoint, an old one, or not whole; the message names the file."""


def save_checkpoint(path, arrays, facts):
    """Write a checkpoint.

    Parameters
    ----------
    path : path
    arrays : dict of str to ndarray
    facts : dict
        Anything that JSON can hold: configs, tokenizer, progress.
    """
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    digest = checksum(facts, ((name, array.dtype, array.shape, [array.data])
                              for name, array in sorted(arrays.items())))
    text = json.dumps({"format": format_of(VERSION), **facts, "sha256": digest}, sort_keys=True)
    entries = [(name, array.dtype, array.shape, lambda array=array: array)
               for name, array in sorted(arrays.items(),
                                         key=lambda item: (order_of(item[1].dtype), item[0]))]
    write_tensors(path, entries, {"numformer": text}, MOST_HEADER)


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
