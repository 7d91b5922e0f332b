"""The lock of a folder: one writer, whose death sets it free."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from numformer.runs import FolderInUse, FolderLock, RunFolder, folder_lock

HOLD = ("import sys, time; from numformer.runs import FolderLock; "
        "lock = FolderLock(sys.argv[1]); lock.acquire(); print('held', flush=True); "
        "time.sleep(600)")


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock of tmp_path."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout.readline().strip() == b"held"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_the_holder_is_named_and_its_death_sets_the_folder_free(holder, tmp_path):
    folder = RunFolder(tmp_path)
    for write in (folder.lock, folder.open):
        with pytest.raises(FolderInUse, match=f"is in use by process {holder.pid}; wait until"):
            write()
    assert folder.read_metrics() == [], "reading needs no lock"
    holder.send_signal(signal.SIGTERM)
    holder.wait()
    assert (tmp_path / ".lock").exists(), "as a kill leaves it"
    folder.open()
    assert (tmp_path / ".lock").read_text() == f"{os.getpid()}\n"
    folder.close()
    assert not (tmp_path / ".lock").exists()


def test_two_run_folders_of_one_process_do_not_mix(tmp_path):
    first, second = RunFolder(tmp_path), RunFolder(tmp_path)
    first.open()
    first.open()
    with pytest.raises(FolderInUse, match="this one: close the other RunFolder first"):
        second.open()
    first.close()
    second.open()
    second.close()
    second.close()


def test_a_lock_removed_by_its_holder_is_made_anew(tmp_path, monkeypatch):
    """Between opening the file and locking it, the holder may give it back and remove it."""
    real, opened = folder_lock._opened, []

    def opened_too_early(path):
        file = real(path)
        if not opened:
            path.unlink()
        opened.append(path)
        return file

    monkeypatch.setattr(folder_lock, "_opened", opened_too_early)
    with FolderLock(tmp_path):
        assert len(opened) == 2
        with pytest.raises(FolderInUse):
            FolderLock(tmp_path).acquire()


@pytest.mark.skipif(folder_lock.fcntl is None, reason="locks of POSIX")
def test_without_locks_of_the_file_system_work_goes_on(tmp_path, monkeypatch):
    def unsupported(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(folder_lock.fcntl, "flock", unsupported)
    with FolderLock(tmp_path), FolderLock(tmp_path):
        pass


def test_without_locks_of_the_platform_work_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_lock, "fcntl", None)
    monkeypatch.setattr(folder_lock, "msvcrt", None)
    with FolderLock(tmp_path), FolderLock(tmp_path):
        pass


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes")
@pytest.mark.parametrize("make", [os.mkdir, getattr(os, "mkfifo", None),
                                  lambda path: os.symlink("/dev/zero", path)])
def test_what_is_no_file_at_its_place_is_an_error(tmp_path, make):
    make(tmp_path / ".lock")
    with pytest.raises(OSError, match=r"\.lock"):
        FolderLock(tmp_path).acquire()
