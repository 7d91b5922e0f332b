"""Where compiled kernels are kept: a folder that nobody but this user and root can change.

A compiled kernel is code that runs when it is loaded. Whoever can write into its folder, or
exchange one of the folders above it, can run code as this user.
"""

import atexit
import hashlib
import os
import platform
import shutil
import stat
import tempfile
from functools import lru_cache
from pathlib import Path

import numba
import numpy as np
from llvmlite.binding import get_host_cpu_name


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
    except (OSError, RuntimeError) as error:
        return None, f"there is no cache folder in {home}: {getattr(error, 'strerror', error)}"
    if not any(folder.iterdir()) and not _is_writable(folder):
        return None, f"{folder} is empty and cannot be written"
    return folder, ""


def usable(folder):
    """The same folder of one kernel, or a copy of it; None if it is not private or not there.

    Numba refuses a folder that it cannot write, so a filled one that is read-only is copied for
    this process.
    """
    existing = next(part for part in (folder, *folder.parents) if part.exists())
    if not all(is_private(path) for path in (existing, *folder.rglob("*"))):
        return None
    if _is_writable(existing):
        return folder
    if not folder.exists():
        return None
    copy = Path(_folder_of_this_process()) / folder.name
    shutil.copytree(folder, copy, dirs_exist_ok=True, copy_function=shutil.copyfile)
    return copy


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
    """A hash of the kernels' sources and location, of Python, Numba and NumPy, and of the CPU."""
    versions = f"{platform.python_version()} {numba.__version__} {np.__version__}"
    digest = hashlib.sha256(f"{versions} {get_host_cpu_name()} {__file__}".encode())
    for source in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]
