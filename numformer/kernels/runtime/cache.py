"""Where compiled kernels are kept: a folder that nobody but this user and root can change.

A compiled kernel is code that runs when it is loaded. Whoever can write into its folder, or
exchange one of the folders above it, can run code as this user.
"""

import atexit
import hashlib
import json
import os
import platform
import shutil
import stat
import sys
import tempfile
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import numba
import numpy as np
from llvmlite.binding import get_host_cpu_name

from numformer.files import MIB, parse_json, read_file

SEAL = "digests.json"                                 # of the files of a kernel
LOADED = (".nbi", ".nbc")                             # which Numba reads: an index, and its kernels
MOST = 64 * MIB                                       # of a file; kernels have less than 1 MiB

# Of Numba, from its variables (NUMBA_OPT): those that change what is compiled
SETTINGS = ("BOUNDSCHECK", "CPU_FEATURES", "CPU_NAME", "DEBUGINFO_DEFAULT", "ENABLE_AVX",
            "LOOP_VECTORIZE", "OPT", "SLP_VECTORIZE")


def cache_folder():
    """The folder of compiled kernels, named by a hash of their sources; None if there can be none.

    The environment variable NUMFORMER_CACHE names another location than the user's cache folder;
    empty, it turns the cache off. Missing folders are made, for this user alone.
    """
    return find_cache()[0]


def find_cache():
    """(folder of compiled kernels, ""), or (None, why there is none)."""
    home = os.environ.get("NUMFORMER_CACHE", _default_home())
    if not home:
        return None, "NUMFORMER_CACHE is empty" if home == "" else "there is no home folder"
    try:
        folder = Path(home).expanduser().resolve() / f"kernels-{_content()}"
        for part in [*reversed(folder.parents), folder]:
            if not part.exists():
                part.mkdir(mode=0o700, exist_ok=True)
            if not is_private(part, sticky=part != folder):
                return None, f"other users can change {part}"
        if not any(folder.iterdir()) and not _is_writable(folder):
            return None, f"{folder} is empty and cannot be written"
    except (OSError, RuntimeError, ValueError) as error:
        return None, f"there is no cache folder in {home}: {getattr(error, 'strerror', error)}"
    return folder, ""


def usable(folder):
    """The same folder of one kernel, or a copy of it; None if it is not private or not there.

    Numba would wait for a pipe in place of a file, and run whatever a file holds: one whose files
    are not as `seal` found them is emptied. Numba refuses a folder that it cannot write, so a
    filled one that is read-only is copied for this process.
    """
    existing = next(part for part in (folder, *folder.parents) if part.exists())
    if not all(is_private(path) for path in (existing, *folder.rglob("*"))):
        return None
    if not _is_sealed(folder):
        print(f"numformer: {folder} is not as it was written; it is compiled anew",
              file=sys.stderr, flush=True)
        shutil.rmtree(folder)
        existing = folder.parent
    if _is_writable(existing):
        return folder
    if not folder.exists():
        return None
    copy = Path(_folder_of_this_process()) / folder.name
    shutil.copytree(folder, copy, dirs_exist_ok=True, copy_function=shutil.copyfile)
    return copy


def seal(folder):
    """Keep the digests of what a kernel's folder holds now; nothing is written if they are kept.

    Another process may compile the same kernel: whoever has written its digests looks once more,
    so that the last one to write leaves those that fit.
    """
    for _ in range(100):
        files = _digests(folder)
        if not files or _kept(folder) == files:
            return
        data = json.dumps({"kernel": folder.name, "files": files}).encode()
        handle, temporary = tempfile.mkstemp(dir=folder)              # a new file, mode 0600
        try:
            with open(handle, "wb") as file:
                file.write(data)
            os.replace(temporary, folder / SEAL)
        except BaseException:
            os.unlink(temporary)
            raise


def discard_unsealed(folder):
    """Remove the files of a kernel that could not be written as a whole, as on a full disk."""
    with suppress(OSError, ValueError):
        if _kept(folder) == _digests(folder):
            return
    shutil.rmtree(folder, ignore_errors=True)


def _is_sealed(folder):
    """Whether a folder holds what `seal` found there; another process may be about to write it."""
    for seconds in (0.05, 0.2, 0.5, 0):
        with suppress(OSError, ValueError):
            if _kept(folder) == _digests(folder):
                return True
        time.sleep(seconds)
    return False


def _kept(folder):
    """The digests that `seal` has written; {} if there are none, None if they are not its own."""
    if not (folder / SEAL).exists():
        return {}
    try:
        kept = parse_json(read_file(folder / SEAL, MIB, follow_links=False))
        return kept["files"] if kept == {"kernel": folder.name, "files": kept["files"]} else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _digests(folder):
    """SHA-256 of all files in a folder that Numba may read, by their paths in it.

    What a process that was killed has left unfinished has other names.

    Raises
    ------
    OSError, ValueError
        If one of them is no file.
    """
    return {str(path.relative_to(folder)): hashlib.sha256(
                read_file(path, MOST, follow_links=False)).hexdigest()
            for path in sorted(folder.rglob("*"))
            if path.suffix in LOADED and not stat.S_ISDIR(path.lstat().st_mode)}


def is_private(path, sticky=False):
    """Whether only this user and root can change a file or folder.

    With `sticky`, a folder in which users can only change what is theirs, such as /tmp, will do.
    """
    if not hasattr(os, "getuid"):                     # Windows: the folder is the user's own
        return True
    status = path.lstat()
    if status.st_uid not in (os.getuid(), 0):
        return False
    return not status.st_mode & 0o022 or sticky and bool(status.st_mode & stat.S_ISVTX)


def _is_writable(folder):
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@lru_cache(maxsize=1)
def _folder_of_this_process():
    folder = tempfile.mkdtemp(prefix="numformer-kernels-")            # mode 0700
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder, pid):
    if os.getpid() == pid:                            # a forked child leaves it to its parent
        shutil.rmtree(folder, ignore_errors=True)


def _default_home():
    try:
        base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
        base = base or Path.home() / ".cache"
    except RuntimeError:                              # no home directory
        return None
    return Path(base) / "numformer"


def _content():
    """A hash of the kernels' sources and location, of Python, Numba and NumPy, and of the CPU.

    And of the settings with which Numba compiles: a kernel with checks of bounds, or without
    optimization, would be slow in every later process. Without docstrings (python -OO) a function
    has another bytecode, and Numba takes no kernel of the other one.
    """
    versions = f"{platform.python_version()} {numba.__version__} {np.__version__}"
    if sys.flags.optimize > 1:
        versions += " -OO"
    settings = [str(getattr(numba.config, name, None)) for name in SETTINGS]
    digest = hashlib.sha256(f"{versions} {get_host_cpu_name()} {settings} {__file__}".encode())
    for source in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]
