"""The folder that a training writes to: a new one, or that of a run to resume."""

import errno
from pathlib import Path

from numformer.commands import UsageError
from numformer.runs import RunFolder
from numformer.terminal import shell_word

_NO_SPACE = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}


def check_out(arguments):
    """Refuse a wrong --out before data are read.

    Parameters
    ----------
    arguments : Namespace
        With ``out``, ``resume`` and ``start``.
    """
    if arguments.resume and not arguments.out:
        raise UsageError("--resume needs the folder of a run: --out RUN.")
    if arguments.resume and arguments.start:
        raise UsageError("--from begins a new run, but --resume continues one; "
                         "leave one of them out.")
    if arguments.resume:
        _check_run(arguments.out)
    elif arguments.out:
        _check_no_run(arguments.out)


def new_folder(out, preset):
    """A folder for a new run, locked: `out`, or the first free of runs/PRESET, runs/PRESET-2, ...

    Raises
    ------
    UsageError
        If it contains a run, or cannot be made or written to.
    FolderInUse
        If another process writes there.
    """
    folder = _locked(out or _claimed(Path("runs"), preset))
    try:
        _check_no_run(folder.path)                    # another process may have begun one meanwhile
    except UsageError:
        folder.close()
        raise
    return folder


def folder_to_resume(out):
    """The folder of a run, locked; errors as of `new_folder`."""
    folder = _locked(out)
    try:
        _check_run(out)
    except UsageError:
        folder.close()
        raise
    return folder


def resume_command(path):
    """The command line that continues a run."""
    return f"numformer train --resume --out {shell_word(path)}"


def how_to_go_on(error, folder):
    """An OSError of a training as one line: the file, the cause, what is kept and what to do."""
    cure = ("free some space" if error.errno in _NO_SPACE else
            "raise the limit on file sizes (ulimit -f)" if error.errno == errno.EFBIG else "")
    if folder.checkpoint.exists():
        resume = f"resume with: {resume_command(folder.path)}"
        cure = f"{folder.checkpoint} is intact: {cure}{', then ' if cure else ''}{resume}"
    where = error.filename or folder.metrics
    return f"{where}: {error.strerror or error}; {cure or 'choose another --out'}"


def _claimed(parent, name):
    """Make the first of parent/name, parent/name-2, ... that does not exist."""
    number, path = 1, parent / name
    while True:
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:                       # also where another process was faster
            number += 1
            path = parent / f"{name}-{number}"
        except OSError as error:
            raise UsageError(f"{path} cannot be created: {error.strerror}; choose a folder with "
                             "--out.") from None


def _locked(path):
    try:
        folder = RunFolder(path)
    except OSError as error:
        raise UsageError(f"--out {shell_word(path)} cannot be created: {error.strerror}; choose "
                         "another.") from None
    try:
        folder.lock()
    except OSError as error:
        raise UsageError(f"--out {shell_word(path)} cannot be written to: {error.strerror}; choose "
                         "another.") from None
    return folder


def _has_run(out):
    return (Path(out) / "checkpoint.safetensors").exists()


def _check_run(out):
    if not _has_run(out):
        raise UsageError(f"there is no run in {out} to resume; check --out, or begin a new run "
                         "without --resume.")


def _check_no_run(out):
    if _has_run(out):
        raise UsageError(f"{out} contains a run already; add --resume to continue it, "
                         "or choose another --out.")
