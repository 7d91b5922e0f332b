"""numformer.files: what is no regular file, too large or no JSON is refused, and nothing hangs."""

import os
import threading
import time

import pytest

from numformer.files import MIB, FileError, parse_json, read_file, reading

pipes_only = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")


@pytest.mark.parametrize("data", [b"", b"abc", bytes(10)])
def test_a_regular_file_is_read_whole_and_through_a_link(tmp_path, data):
    (tmp_path / "f").write_bytes(data)
    (tmp_path / "link").symlink_to("f")
    for name in ("f", "link"):
        assert read_file(tmp_path / name, most=10) == data
    with pytest.raises((FileError, OSError)):
        read_file(tmp_path / "link", most=10, follow_links=False)


def test_a_file_without_a_size_is_read_whole():
    if not os.path.exists("/proc/self/status"):
        pytest.skip("no /proc")
    assert read_file("/proc/self/status", MIB).startswith(b"Name:")
    with pytest.raises(FileError, match="too large"):
        read_file("/proc/self/status", most=50)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no devices")
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/urandom", "/dev/full"])
def test_devices_are_refused_also_behind_a_link(tmp_path, device):
    (tmp_path / "link").symlink_to(device)
    for path in (device, tmp_path / "link"):
        for pipes in (False, True):
            with pytest.raises(FileError, match="must be a regular file, but is a device"):
                read_file(path, MIB, pipes)


def test_large_files_are_refused_unread(tmp_path):
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(2**40)
    with pytest.raises(FileError, match="too large: it holds more than 1 MiB"):
        read_file(tmp_path / "sparse", MIB)


def test_folders_missing_files_and_circles_are_errors_of_the_system(tmp_path):
    (tmp_path / "circle").symlink_to("circle")
    for path, error in ((tmp_path, IsADirectoryError), (tmp_path / "no", FileNotFoundError),
                        (tmp_path / "circle", OSError)):
        with pytest.raises(error):
            read_file(path, MIB)


@pipes_only
def test_a_pipe_is_read_only_where_it_is_allowed_and_to_its_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "WAIT_SECONDS", 0.1)
    os.mkfifo(tmp_path / "p")
    with pytest.raises(FileError, match="but is a pipe"):
        read_file(tmp_path / "p", MIB)
    assert read_file(tmp_path / "p", MIB, pipes=True) == b""          # nobody writes

    def write(data):
        with open(tmp_path / "p", "wb") as pipe:
            time.sleep(0.05)
            try:
                pipe.write(data)
            except BrokenPipeError:
                pass

    monkeypatch.setattr(reading, "WAIT_SECONDS", 60)
    for size in (0, 300_000, 3 * MIB):
        writer = threading.Thread(target=write, args=(b"x" * size,))
        writer.start()
        if size == 3 * MIB:
            with pytest.raises(FileError, match="too large"):
                read_file(tmp_path / "p", MIB, pipes=True)
        elif size:
            assert read_file(tmp_path / "p", MIB, pipes=True) == b"x" * size
        else:
            monkeypatch.setattr(reading, "WAIT_SECONDS", 0.5)
            assert read_file(tmp_path / "p", MIB, pipes=True) == b""
            monkeypatch.setattr(reading, "WAIT_SECONDS", 60)
        writer.join()


@pytest.mark.parametrize("text, words", [
    ("", "Expecting value"), ("NaN", "no number of JSON"), ("[-Infinity]", "no number of JSON"),
    ("1e999", "too large"), ('{"a": 1, "a": 1}', "'a' appears twice"),
    ("[" * 10**6, "nested too deeply"), ('{"a":' * 10**6, "nested too deeply"),
    ("9" * 101, "101 digits"), ("9" * 10**6, "1000000 digits"), (b"\xff", "codec"),
    ("[1] 2", "Extra data")])
def test_what_is_no_json_is_a_short_error(text, words):
    with pytest.raises(ValueError, match=words) as caught:
        parse_json(text)
    assert len(str(caught.value)) < 200


def test_json_keeps_its_values():
    assert parse_json('{"a": [1, -2.5, null, true, "\\u001b"], "b": {}}') == {
        "a": [1, -2.5, None, True, "\x1b"], "b": {}}
