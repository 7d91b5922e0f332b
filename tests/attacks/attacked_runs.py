"""Short trainings in processes that are to be killed, signalled or starved, and their comparison.

Children are forked from a parent that has imported everything and use the NumPy reference, so that
one takes a tenth of a second. Every tenth is a fresh process of `python -m numformer`.
"""

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

TEXT = "the quick brown fox jumps over the lazy dog, and\nthe dog sleeps on.\n" * 20
SETTINGS = ["--steps", "12", "--eval-every", "4", "--save-every", "3", "--n-layers", "2",
            "--n-heads", "2", "--d-model", "16", "--context-length", "8", "--batch-size", "4",
            "--warmup-steps", "2", "--threads", "1"]
LIMIT_SECONDS = 120                                   # a child that takes longer hangs
CHECKPOINTS = ("checkpoint.safetensors", "best.safetensors")


class Workshop:
    """A folder with a text and an undisturbed run of it, and the faults found so far.

    Parameters
    ----------
    folder : path
    pictures : bool
        Whether children draw pictures and generate samples, which takes most of their time.
    fresh : bool
        Whether the reference is of a fresh process, with compiled kernels where there are any.
    """

    def __init__(self, folder, pictures=True, fresh=False):
        self.folder, self.faults, self.runs = Path(folder), [], 0
        self.pictures, self.fresh = pictures, fresh
        self.text = self.folder / "fox.txt"
        self.text.write_text(TEXT)
        self.log = self.folder / "log"
        if fresh:                                     # the first compiles the kernels
            self._train(self.folder / "compiled")
        started = time.monotonic()
        self.reference = self.folder / "reference"
        self._train(self.reference)
        self.seconds = time.monotonic() - started

    def _train(self, out):
        status = self.wait(self.start(self.argv(out)), seconds=1800)
        if status:
            sys.exit(f"a training without any attack has status {status}: {self.said()}")

    def argv(self, out):
        """The arguments that begin a run, or resume the one that is there."""
        begin = ["--data", str(self.text), *SETTINGS]
        out = Path(out)
        return ["train", *(["--resume"] if (out / CHECKPOINTS[0]).exists() else begin),
                "--out", str(out)]

    def new_out(self):
        self.runs += 1
        return self.folder / f"run{self.runs}"

    def start(self, argv, prepare=lambda: None, log=None, cwd=None):
        """Start `numformer ARGV` in a child; return its process id."""
        log = Path(log or self.log)
        log.write_bytes(b"")                          # a signal may end the child before its first
        if self.fresh:
            with open(log, "wb") as file:
                return subprocess.Popen([sys.executable, "-m", "numformer", *argv], cwd=cwd,
                                        stdout=file, stderr=file).pid
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)       # of fork: BLAS has threads
            signals = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
            signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # until the child is ready
            pid = os.fork()
        if pid:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
            return pid
        status = 99
        try:
            atexit._clear()                                           # the parent's folder stays
            signal.signal(signal.SIGINT, signal.SIG_DFL)              # as `prepare` sets it
            signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
            with open(log, "wb") as file:
                for number in (1, 2):
                    os.dup2(file.fileno(), number)
            os.chdir(cwd or self.folder)
            self._run(argv, prepare)
        except SystemExit as end:
            status = end.code or 0
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stderr.flush()
            os._exit(status)

    def _run(self, argv, prepare):
        from numformer import __main__, backend
        from numformer.commands import train
        from numformer.recipes import TextTask

        backend.use("numpy")
        if not self.pictures:
            train.draw_pictures = lambda *arguments: []
            TextTask.sample = lambda *arguments: None
        sys.argv = ["numformer", *argv]
        prepare()
        __main__.command()

    def wait(self, pid, seconds=LIMIT_SECONDS):
        """The exit status of a child, negative for the signal that killed it; kills one that hangs.
        """
        until, pause = time.monotonic() + seconds, 0.0005
        while True:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > until:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                self.fault(f"a child hung for {seconds} s")
                return -signal.SIGKILL
            time.sleep(pause)
            pause = min(2 * pause, 0.01)

    def said(self):
        return self.log.read_text(errors="replace")

    def fault(self, text):
        self.faults.append(f"{text}: {self.said()[-600:].strip()!r}")
        print(f"FAULT {self.faults[-1]}", flush=True)

    def check_said(self, where):
        if "Traceback" in self.said() or "Error" in self.said():
            self.fault(f"{where}: a traceback")

    def check_whole(self, out, where):
        """Every checkpoint that is there can be read."""
        from numformer.runs import load_checkpoint

        for name in CHECKPOINTS:
            if (out / name).exists():
                try:
                    load_checkpoint(out / name)
                except Exception as error:
                    self.fault(f"{where}: {name} is broken ({error})")

    def finish(self, out, where):
        """Resume a run to its end; it must equal the undisturbed one, byte for byte."""
        status = self.wait(self.start(self.argv(out)))
        if status != 0:
            self.fault(f"{where}: cannot be resumed, status {status}")
        elif content(out) != content(self.reference):
            expected, found = content(self.reference), content(out)
            names = sorted(name for name in {*expected, *found}
                           if expected.get(name) != found.get(name))
            self.fault(f"{where}: {', '.join(names)} differ from the undisturbed run's")
        self.check_said(where)


def content(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def import_everything():
    """What a training imports, so that forked children need not."""
    import matplotlib.backends.backend_agg                            # noqa: F401
    import safetensors.numpy                                          # noqa: F401
    import tqdm                                                       # noqa: F401

    import numformer.cli                                              # noqa: F401
    import numformer.commands.eval                                    # noqa: F401
    import numformer.commands.train                                   # noqa: F401
    import numformer.plots                                            # noqa: F401


def main(attack, description, default):
    """Run `attack(n, folder)`, which returns (figures, faults); return the exit status."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else default
    if not hasattr(os, "fork"):
        sys.exit("this attack needs fork")
    import_everything()
    with tempfile.TemporaryDirectory() as folder:
        figures, faults = attack(count, Path(folder))
    print(f"{description}: {figures}; {len(faults)} faults")
    return 1 if faults else 0
