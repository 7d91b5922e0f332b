"""Files and folders are there as a whole or not at all, also on a full disk."""

import errno
import os
from pathlib import Path

import pytest

from numformer.files import undone_after_errors, whole_folders, write_atomically
from numformer.files.writing import LONGEST_NAME, temporary_name


def full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def content(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("name", ["y" * 255, "\u00e9" * 127, "y" * 250, "short"])
def test_a_name_may_be_as_long_as_the_file_system_allows(tmp_path, name):
    write_atomically(tmp_path / name, b"whole")
    assert content(tmp_path) == [name] and (tmp_path / name).read_bytes() == b"whole"
    assert len(os.fsencode(temporary_name(tmp_path / name).name)) <= LONGEST_NAME
    assert temporary_name(tmp_path / name) != temporary_name(tmp_path / f"{name[:-1]}z")


def test_folders_are_there_together(tmp_path):
    with whole_folders(tmp_path / "new" / "a", tmp_path / "new" / "b") as (a, b):
        (a / "file").write_text("a")
        (b / "inner").mkdir()
        assert not (tmp_path / "new" / "a").exists()
    assert content(tmp_path / "new") == ["a", "a/file", "b", "b/inner"]


@pytest.mark.parametrize("function", ["rename", "mkdir"])
def test_folders_that_cannot_be_written_leave_nothing(tmp_path, monkeypatch, function):
    (tmp_path / "old").write_text("")
    calls, real = [], getattr(os, function)

    def second_fails(*arguments, **options):
        calls.append(arguments)
        return real(*arguments, **options) if len(calls) < 2 else full()
    monkeypatch.setattr(os, function, second_fails)
    with pytest.raises(OSError, match="No space left") as caught:
        with whole_folders(tmp_path / "new" / "a", tmp_path / "new" / "b") as (a, _):
            (a / "file").write_text("a")
    assert str(tmp_path / "new") in caught.value.filename
    assert content(tmp_path) == ["old"]


def test_a_file_inside_is_named_as_it_would_have_been(tmp_path, monkeypatch):
    with pytest.raises(OSError) as caught, whole_folders(tmp_path / "a") as (folder,):
        (folder / "missing" / "file").write_text("")
    assert caught.value.filename == str(tmp_path / "a" / "missing" / "file")
    with pytest.raises(OSError) as caught, whole_folders(tmp_path / "a"):
        full()
    assert caught.value.filename == str(tmp_path / "a") and content(tmp_path) == []


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("new", [True, False])
def test_what_was_put_into_a_folder_is_removed_and_what_was_there_stays(tmp_path, error, new):
    folder = tmp_path / "above" / "folder"
    if not new:
        folder.mkdir(parents=True)
        (folder / "old").write_text("")
    before = content(tmp_path)
    with pytest.raises(error), undone_after_errors(folder):
        (folder / "file").write_text("")
        (folder / "inner").mkdir()
        Path(folder / "inner" / "file").write_text("")
        raise error
    assert content(tmp_path) == before
