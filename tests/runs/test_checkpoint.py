"""Checkpoints: whole or not at all, and never a surprise for the reader."""

import errno
import os
import struct

import numpy as np
import pytest

from numformer.files import write_atomically
from numformer.runs import CheckpointError, load_checkpoint, save_checkpoint

ARRAYS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array(2.5)}
FACTS = {"text": "é\n\"", "numbers": [1, 0.1, None], "nested": {"z": 1, "a": True}}


@pytest.fixture
def path(tmp_path):
    save_checkpoint(tmp_path / "c.safetensors", ARRAYS, FACTS)
    return tmp_path / "c.safetensors"


def test_a_checkpoint_round_trips(path):
    arrays, facts = load_checkpoint(path)
    assert facts == FACTS and arrays.keys() == ARRAYS.keys()
    assert all(arrays[name].dtype == ARRAYS[name].dtype
               and np.array_equal(arrays[name], ARRAYS[name]) for name in ARRAYS)


def test_any_memory_layout_is_saved_right(tmp_path, rng):
    x = rng.standard_normal((4, 6))
    arrays = {"transposed": x.T, "strided": x[::2, ::3], "fortran": np.asfortranarray(x),
              "reversed": x[::-1],
              "flat": np.broadcast_to(x[0], (3, 6))}
    save_checkpoint(tmp_path / "c", arrays, {})
    loaded, _ = load_checkpoint(tmp_path / "c")
    assert all(np.array_equal(loaded[name], array) for name, array in arrays.items())


def test_the_same_state_gives_the_same_bytes(path, tmp_path):
    save_checkpoint(tmp_path / "again", dict(reversed(ARRAYS.items())),
                    dict(reversed(FACTS.items())))
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_every_truncation_is_one_clear_error(path, tmp_path):
    data = path.read_bytes()
    for length in range(len(data)):
        (tmp_path / "cut").write_bytes(data[:length])
        with pytest.raises(CheckpointError, match="cut"):
            load_checkpoint(tmp_path / "cut")


def test_every_changed_byte_is_noticed(path, tmp_path):
    data = path.read_bytes()
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 0x01
        (tmp_path / "changed").write_bytes(changed)
        with pytest.raises(CheckpointError):
            load_checkpoint(tmp_path / "changed")


@pytest.mark.parametrize("data", [
    b"", b"hello", b"\x80\x04pickle", b"PK\x03\x04" + bytes(100), os.urandom(1000),
    struct.pack("<Q", 2**63) + b"{}",
    struct.pack("<Q", 2) + b"{}",
    struct.pack("<Q", 4) + b"null", struct.pack("<Q", 2) + b"[]"])
def test_foreign_files_are_refused(data, tmp_path):
    (tmp_path / "foreign").write_bytes(data)
    with pytest.raises(CheckpointError, match="foreign"):
        load_checkpoint(tmp_path / "foreign")


def test_foreign_safetensors_files_are_refused(tmp_path):
    from safetensors.numpy import save_file

    for metadata in (None, {"numformer": "not json"}, {"numformer": "[" * 200_000},
                     {"numformer": "[]"}, {"numformer": "{}"}, {"other": "x"}):
        save_file({"a": np.zeros(2)}, tmp_path / "s", metadata)
        with pytest.raises(CheckpointError, match="not a checkpoint of numformer|no checkpoint"):
            load_checkpoint(tmp_path / "s")
    save_file({"a": np.zeros(2)}, tmp_path / "s",
              {"numformer": '{"format": "numformer checkpoint, version 99", "sha256": ""}'})
    with pytest.raises(CheckpointError, match="version 99"):
        load_checkpoint(tmp_path / "s")


def test_a_full_disk_leaves_the_old_file(path, monkeypatch):
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save_checkpoint(path, {"a": np.ones(9)}, {})
    assert path.read_bytes() == before and [p.name for p in path.parent.iterdir()] == [path.name]


def test_write_atomically_replaces_and_leaves_nothing_behind(tmp_path):
    for data in (b"one", b"two"):
        write_atomically(tmp_path / "f", data)
        assert (tmp_path / "f").read_bytes() == data
    assert [p.name for p in tmp_path.iterdir()] == ["f"]
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "nowhere" / "f", b"")
