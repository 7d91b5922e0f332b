"""What the process of a student's file may not do, as far as Linux can forbid it (Landlock).

- Write, make or remove a file outside of its own folder: not the judge's source, no other file of
  the teacher's, no file that stays behind. It may read; permissions are for `system_calls`. Before
  Linux 6.2 it may also cut a file short.
- Look into or stop another process, or open its files through /proc: not the judge, not the grader.
  It may do so with processes that it has started itself.
- Send a signal to another process (since Linux 6.12).

It holds for everybody, root included, and for all that the process starts, for good. On a system
without Landlock (Linux before 5.13, or where an administrator has left it out; others) nothing is
forbidden here.

References
----------
"Landlock: unprivileged access control", in the documentation of the Linux kernel.
"""

import ctypes
import os
import struct
import sys
import tempfile
from contextlib import suppress

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446       # numbers of system calls
ONLY_VERSION, PATH_BENEATH = 1, 1
NO_NEW_PRIVILEGES = 38                                # PR_SET_NO_NEW_PRIVS
WRITE_FILE, REFER, TRUNCATE = 1 << 1, 1 << 13, 1 << 14
CHANGES = WRITE_FILE | sum(1 << n for n in range(4, 13))      # remove and make files of all kinds
SIGNALS_AND_SOCKETS = 3                               # scopes


def confine(folder):
    """Forbid this process, and what it starts, all of the above.

    Parameters
    ----------
    folder : path
        Where it may write; temporary files go there.

    Returns
    -------
    bool
        Whether the system could.
    """
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None
    version = landlock_version()
    if not version:
        return False
    changes = CHANGES | REFER * (version >= 2) | TRUNCATE * (version >= 3)
    attributes = struct.pack("=QQQ", changes, 0, SIGNALS_AND_SOCKETS)
    size = 24 if version >= 6 else 8                  # earlier versions know no scopes
    with suppress(OSError):
        rules = _call(CREATE_RULESET, attributes, size, 0)
        try:
            _allow(rules, folder, changes)
            _allow(rules, os.devnull, changes & (WRITE_FILE | TRUNCATE))
            ctypes.CDLL(None).prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
            _call(RESTRICT_SELF, rules, 0)
            return True
        finally:
            os.close(rules)
    return False


def landlock_version():
    """The version of Landlock of this system; 0 if it has none."""
    if sys.platform != "linux":
        return 0
    with suppress(OSError, AttributeError):
        return _call(CREATE_RULESET, None, 0, ONLY_VERSION)
    return 0


def _allow(rules, path, access):
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        _call(ADD_RULE, rules, PATH_BENEATH, struct.pack("=Qi", access, descriptor), 0)
    finally:
        os.close(descriptor)


def _call(number, *arguments):
    library = ctypes.CDLL(None, use_errno=True)
    result = library.syscall(ctypes.c_long(number), *(
        x if x is None or isinstance(x, bytes) else ctypes.c_long(x) for x in arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
