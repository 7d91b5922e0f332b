"""Watch every file operation that writes, to fail or to die before, inside or after one of them."""

import builtins
import errno
import io
import os
import signal

NAMES = ("open", "fsync", "replace", "unlink", "mkdir", "close")


class Watch:
    """Replaces, in this process, what changes files by versions that call `act` around it.

    Parameters
    ----------
    act : callable
        Gets the number of the operation, its name, "before", "inside" or "after", and the path or
        None. Inside a write, the first half of the bytes is written.
    disk : callable
        Bytes that still fit, before a write; None for no limit.
    """

    def __init__(self, act=lambda *event: None, disk=lambda: None):
        self.act, self.disk, self.count = act, disk, 0
        for name in NAMES:
            setattr(os, name, self._around(name, getattr(os, name)))
        real, watch = io.open, self

        class Raw(io.FileIO):
            def write(self, data):
                return watch.write(super().write, memoryview(data).cast("B"), self.name)

        def opened(file, mode="r", buffering=-1, *rest, **options):
            if "b" not in mode or not set(mode) & set("wa+x"):
                return real(file, mode, buffering, *rest, **options)
            if not isinstance(file, int):
                watch.begin("create", file)
            raw = Raw(file, mode.replace("b", ""))
            return raw if buffering == 0 else io.BufferedWriter(raw)

        builtins.open = io.open = opened

    def begin(self, name, path=None):
        self.count += 1
        self.act(self.count, name, "before", path)

    def write(self, real, data, path):
        self.begin("write", path)
        room = self.disk()
        if room is not None and room < len(data):
            if room <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(data[:room])                  # as a disk does: a part, without an error
        half = real(data[:len(data) // 2])
        self.act(self.count, "write", "inside", path)
        written = half + real(data[half:])
        self.act(self.count, "write", "after", path)
        return written

    def _around(self, name, real):
        def watched(*arguments, **options):
            self.begin(name, arguments[0] if arguments else None)
            result = real(*arguments, **options)
            self.act(self.count, name, "after", arguments[0] if arguments else None)
            return result

        return watched


def die():
    """What a power cut does to a process."""
    os.kill(os.getpid(), signal.SIGKILL)
