"""The cache of compiled kernels holds code: nobody else may be able to change it."""

import errno
import multiprocessing
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")
from numformer.kernels.runtime import cache  # noqa: E402  (needs Numba)

OWNED = pytest.mark.skipif(not hasattr(os, "getuid"), reason="no owners and modes on this system")
SCRIPT = """
import sys
import numpy as np
from numformer.kernels.runtime import cache
from numformer.kernels.runtime.compile import Kernel
exec(sys.argv[1])

def double(x):
    for i in range(len(x)):
        x[i] *= 2

x = np.ones(2)
Kernel(double, lambda real: (real[:],))[x.dtype](x)
assert x.tolist() == [2, 2]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache below two folders that do not exist yet."""
    monkeypatch.setenv("NUMFORMER_CACHE", str(tmp_path / "above" / "home"))
    return cache.cache_folder()


@pytest.mark.parametrize("name, value", [("OPT", 0), ("BOUNDSCHECK", 1), ("CPU_NAME", "generic")])
def test_other_settings_of_numba_have_a_cache_of_their_own(folder, monkeypatch, name, value):
    monkeypatch.setattr(cache.numba.config, name, value)
    other = cache.cache_folder()
    assert other != folder and other.parent == folder.parent


@OWNED
def test_missing_folders_are_made_for_this_user_alone(folder, tmp_path):
    parents = [folder, *folder.parents]
    for part in parents[:parents.index(tmp_path)]:
        assert part.stat().st_mode & 0o777 == 0o700


@OWNED
@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("mode", [0o777, 0o720, 0o702])
def test_a_cache_is_not_used_if_others_may_write_to_it_or_to_a_folder_above(folder, depth, mode):
    changed = [folder, *folder.parents][depth]
    changed.chmod(mode)
    found, why = cache.find_cache()
    assert found is None and why == f"other users can change {changed}"


@OWNED
def test_a_sticky_folder_above_will_do_but_not_as_the_cache_itself(folder):
    folder.parent.chmod(0o1777)
    assert cache.cache_folder() == folder
    folder.chmod(0o1777)
    assert cache.cache_folder() is None


@OWNED
@pytest.mark.skipif(hasattr(os, "getuid") and os.getuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_cache_of_another_user_is_not_used(folder, depth):
    os.chown([folder, *folder.parents][depth], 12345, -1)
    assert cache.cache_folder() is None


@OWNED
def test_a_kernel_that_others_may_have_written_is_not_used(folder):
    kernel = folder / "gelu-float32"
    assert cache.usable(kernel) == kernel
    (kernel / "page").mkdir(parents=True)
    file = kernel / "page" / "gelu.nbc"
    file.write_bytes(b"")
    cache.seal(kernel)
    assert cache.usable(kernel) == kernel
    file.chmod(0o666)
    assert cache.usable(kernel) is None
    file.unlink()
    file.symlink_to("/dev/null")                      # a link, whose mode is open to all
    assert cache.usable(kernel) is None


def pipe(file):
    file.unlink()
    os.mkfifo(file, 0o600)


def directory(file):
    file.unlink()
    file.mkdir()
    (file / "inside").write_bytes(b"")


def socket_there(file):
    file.unlink()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(file))
    file.chmod(0o600)


def loop(file):
    file.unlink()
    file.symlink_to(file.name)


def swapped(file):
    file.write_bytes(file.parents[2].joinpath("other", "page", file.name).read_bytes())


@OWNED
@pytest.mark.parametrize("change", [
    pipe, directory, socket_there, swapped, lambda file: file.write_bytes(b"cut"), Path.unlink,
    lambda file: file.with_name("more.nbc").write_bytes(b"")])
def test_what_is_not_as_it_was_written_is_emptied(folder, capsys, change, monkeypatch):
    for name in ("gelu", "other"):
        (folder / name / "page").mkdir(parents=True)
        (folder / name / "page" / "kernel.nbc").write_text(name)
        cache.seal(folder / name)
    monkeypatch.setattr(cache.time, "sleep", lambda seconds: None)
    monkeypatch.chdir(folder)
    change(folder / "gelu" / "page" / "kernel.nbc")
    assert cache.usable(folder / "gelu") == folder / "gelu" and not (folder / "gelu").exists()
    err = capsys.readouterr().err
    assert "gelu is not as it was written; it is compiled anew" in err and err.count("\n") == 1
    assert cache.usable(folder / "other").exists() and not capsys.readouterr().err


@OWNED
def test_the_folder_of_another_kernel_is_not_taken(folder, monkeypatch):
    (folder / "gelu").mkdir()
    (folder / "gelu" / "kernel.nbc").write_text("gelu")
    cache.seal(folder / "gelu")
    (folder / "gelu").rename(folder / "relu")
    monkeypatch.setattr(cache.time, "sleep", lambda seconds: None)
    cache.usable(folder / "relu")
    assert not (folder / "relu").exists()


def filled(folder, name="gelu"):
    """The folder of a kernel as Numba leaves it, without the digests of its files."""
    (folder / name / "page").mkdir(parents=True)
    for suffix in (".nbi", ".1.nbc"):
        (folder / name / "page" / f"kernel{suffix}").write_text(suffix)
    return folder / name


def written(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def no_space(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_kernel_that_was_only_read_writes_nothing(folder, monkeypatch):
    kernel = filled(folder)
    cache.seal(kernel)
    before = written(kernel)
    monkeypatch.setattr(cache.tempfile, "mkstemp", no_space)
    cache.seal(kernel)
    cache.discard_unsealed(kernel)
    assert written(kernel) == before and cache.usable(kernel) == kernel


@pytest.mark.parametrize("failing", [("json", "dumps"), ("os", "replace"), ("tempfile", "mkstemp")])
def test_what_a_full_disk_cuts_short_leaves_nothing(folder, monkeypatch, capsys, failing):
    intact, kernel = filled(folder, "intact"), filled(folder)
    cache.seal(intact)
    module, function = failing
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(getattr(cache, module), function, no_space)
        cache.seal(kernel)
    assert sorted(path.name for path in kernel.rglob("*")) == ["kernel.1.nbc", "kernel.nbi", "page"]
    cache.discard_unsealed(kernel)
    assert not kernel.exists() and cache.usable(kernel) == kernel
    assert cache.usable(intact).exists() and not capsys.readouterr().err


@OWNED
def test_what_a_killed_process_left_does_not_count(folder, capsys):
    kernel = filled(folder)
    cache.seal(kernel)
    for name in ("tmpabc", "page/kernel.1.nbc.tmp.0123"):
        (kernel / name).write_bytes(b"")
    assert cache.usable(kernel).exists() and not capsys.readouterr().err


def test_of_two_processes_that_seal_the_last_one_leaves_what_fits(folder, monkeypatch):
    """The other one writes its kernel and its digests just before those of the first one."""
    kernel, replace = filled(folder), os.replace

    def late(*paths):
        monkeypatch.setattr(cache.os, "replace", replace)
        (kernel / "page" / "kernel.1.nbc").write_text("of another process")
        cache.seal(kernel)
        replace(*paths)
    monkeypatch.setattr(cache.os, "replace", late)
    cache.seal(kernel)
    assert cache.os.replace is replace and cache._is_sealed(kernel)


def write_and_seal(kernel, barrier, number):
    for n in range(20):
        barrier.wait()
        (kernel / "page" / "kernel.1.nbc").write_text(f"{number} {n}")
        cache.seal(kernel)


@pytest.mark.slow
def test_two_processes_in_the_same_moment(folder):
    kernel, context = filled(folder), multiprocessing.get_context("fork")
    barrier = context.Barrier(2)
    both = [context.Process(target=write_and_seal, args=(kernel, barrier, number))
            for number in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0] and cache._is_sealed(kernel)
    assert len(list(kernel.rglob("*"))) == 4, "and no temporary file"


@pytest.mark.parametrize("before, words", [
    ("", "once per machine"), ("sys.flags.optimize", "once per machine"),
    ("from numba.core import config; config.CACHE_LOCATOR_CLASSES = 'Nope'; "
     "os.environ['NUMBA_CACHE_LOCATOR_CLASSES'] = 'Nope'", "as there is no cache (")])
@pytest.mark.slow
def test_compiling_is_announced_once_whenever_it_happens(folder, before, words):
    options = ["-OO"] if "optimize" in before else []
    fill(folder)
    said = run(folder, f"import os; {before}", options)
    if before:
        assert said.startswith(f"numformer: compiling kernels, {words}") and said.count("\n") == 1
    else:
        assert said == ""


@pytest.mark.slow
@OWNED
def test_a_kernel_runs_without_a_cache_where_a_link_leads_to_itself(folder):
    (folder / "double-float64").symlink_to("double-float64")
    said = run(folder).splitlines()
    assert 1 <= len(said) <= 2 and (folder / "double-float64").is_symlink()


@pytest.mark.parametrize("make", [lambda path: path.write_text(""), os.mkfifo,
                                  lambda path: path.symlink_to(path.name)])
def test_what_is_no_folder_is_no_cache(tmp_path, monkeypatch, make):
    make(tmp_path / "home")
    monkeypatch.setenv("NUMFORMER_CACHE", str(tmp_path / "home"))
    found, why = cache.find_cache()
    assert found is None and "there is no cache folder in" in why


@pytest.mark.slow
@OWNED
def test_the_swapped_file_of_a_cache_does_not_run(folder):
    """Whoever can write to a folder above could exchange the cache for one of their own."""
    fill(folder)
    assert run(folder) == ""
    folder.parent.parent.chmod(0o777)
    assert "as there is no cache" in run(folder)


@pytest.mark.slow
def test_a_filled_cache_that_is_read_only_is_used_and_left_alone(folder):
    fill(folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert run(folder, "cache._is_writable = lambda folder: False") == ""
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_an_empty_cache_that_is_read_only_is_none(folder, monkeypatch):
    monkeypatch.setattr(cache, "_is_writable", lambda folder: False)
    found, why = cache.find_cache()
    assert found is None and why == f"{folder} is empty and cannot be written"


def test_the_cache_changes_with_every_source_of_the_kernels(tmp_path, monkeypatch):
    """Also with those in folders: a kernel is compiled together with what it is made of."""
    pages = ("norms.py", "attention/tiles.py", "runtime/compile.py")
    for page in pages:
        (tmp_path / page).parent.mkdir(exist_ok=True)
        (tmp_path / page).write_text("")
    monkeypatch.setattr(cache, "__file__", str(tmp_path / "runtime/cache.py"))
    monkeypatch.setenv("NUMFORMER_CACHE", str(tmp_path / "cache"))
    folders = {cache.cache_folder()}
    for page in pages:
        (tmp_path / page).write_text("changed")
        folders.add(cache.cache_folder())
    assert len(folders) == 4


def fill(folder):
    """Compile into the cache. What cannot be saved is no error there, so it is tried again."""
    for _ in range(3):
        assert "once per machine" in run(folder)
        if list(folder.rglob("*.nbc")):
            return
    raise AssertionError(f"nothing was saved: {list(folder.parent.parent.rglob('*'))}")


def run(folder, before="", options=()):
    """What is written to stderr by a process that uses a kernel."""
    script = folder.parent.parent / "script.py"
    if not script.exists():
        script.write_text(SCRIPT)
    result = subprocess.run([sys.executable, *options, script, before], text=True,
                            capture_output=True,
                            env={**os.environ, "NUMFORMER_CACHE": str(folder.parent)})
    assert result.returncode == 0, result.stderr
    return result.stderr
