"""The process of a verb: its streams, its signals, and what it says when it cannot write."""

import errno
import io
import os
import shlex
import signal
import subprocess
import sys

import pytest

from command import DEFAULT_SIGNALS, SECONDS, SMALL, call, content
from numformer.commands import train as train_command
from numformer.commands.shared import process
from numformer.runs import RunFolder
from numformer.terminal import shell_word, show_text

posix = pytest.mark.skipif(os.name != "posix", reason="redirections of a POSIX shell")
SHORT = ["--steps", "4", "--eval-every", "2", "--save-every", "2", "--threads", "1", *SMALL]
# A shell closes or fills the streams; in the child, the NumPy reference starts in a moment.
PROGRAM = ("import sys; from numformer.commands.shared import process; process.prepare(); "
           "from numformer import backend; backend.use('numpy'); "
           "from numformer.__main__ import command; command()")


@posix
@pytest.mark.slow
@pytest.mark.parametrize("streams, status", [
    ("2>&-", 0), (">&-", 0), ("<&- >&- 2>&-", 0), ("2>/dev/full", 0), (">/dev/full", 1),
    (">/dev/full 2>/dev/full", 1), ("2>&1 | head -1", 0), ("| head -0", 0)])
def test_dead_streams_end_no_training(text, tmp_path, streams, status):
    for out in ("quiet", "dead"):
        words = shlex.join(["train", "--data", text, "--out", str(tmp_path / out), *SHORT])
        command = f'"{sys.executable}" -c "{PROGRAM}" {words} '
        command += "2>/dev/null" if out == "quiet" else streams
        found = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True,
                               text=True)
        assert "Traceback" not in found.stderr
    assert found.returncode == status
    assert content(tmp_path / "quiet") == content(tmp_path / "dead")


@posix
def test_closed_streams_are_opened_so_that_no_file_takes_their_numbers():
    program = ("import os, sys; from numformer.commands.shared.process import prepare; prepare(); "
               "print('lost', file=sys.stderr); sys.exit(os.open(os.devnull, os.O_RDONLY))")
    found = subprocess.run(["bash", "-c", f'"{sys.executable}" -c "{program}" <&- >&- 2>&-'],
                           capture_output=True)
    assert found.returncode >= 3 and found.stdout == found.stderr == b""


@posix
def test_ctrl_c_while_the_program_starts_is_silent():
    """The package imports nothing heavy before its entry has set the signal aside."""
    program = ("import os, signal, sys; import numformer.__main__ as entry; "
               "assert 'numpy' not in sys.modules; entry.process.prepare(); "
               "os.kill(os.getpid(), signal.SIGINT)")
    found = subprocess.run([sys.executable, "-c", program], capture_output=True)
    assert found.returncode == -signal.SIGINT and found.stdout == found.stderr == b""


def test_ctrl_c_is_one_line_and_status_130(capsys, monkeypatch, run, tmp_path):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("numformer.commands.count.run", interrupted)
    assert call(capsys, "count", "gpt2") == (130, "", "numformer: stopped\n")
    monkeypatch.setattr(train_command, "_trained", interrupted)
    before = content(run)
    status, _, err = call(capsys, "train", "--resume", "--out", run)
    assert status == 130 and err == (
        "numformer: stopped without saving; resume from the last checkpoint with: "
        f"numformer train --resume --out {shell_word(run)}\n")
    assert content(run) == before


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_stops_unless_it_was_ignored(name, capfd):
    number = getattr(signal, name, None)
    if number is None:
        pytest.skip(f"this system has no {name}")
    before = signal.getsignal(number)
    try:
        with process.stop_signals() as stopped:
            signal.raise_signal(number)
            assert stopped == [number] and "stopping after this step" in capfd.readouterr().err
            if name == "SIGHUP":                      # a terminal that closes may send several
                signal.raise_signal(number)
            else:
                assert signal.getsignal(number) == before, "once more stops at once"
        assert signal.getsignal(number) == before
        signal.signal(number, signal.SIG_IGN)
        with process.stop_signals() as stopped:
            signal.raise_signal(number)
        assert not stopped and signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, before)


@posix
@pytest.mark.parametrize("finalizer", [False, True])
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_signal_leaves_no_temporary_folder(tmp_path, name, finalizer):
    """Of any verb: here of one that holds one open, and has one until the end of the process.

    In a finalizer Python would print what the signal raises, and go on.
    """
    program = DEFAULT_SIGNALS + (
        "import atexit, os, sys, tempfile, time\n"
        "from numformer.commands.shared import process\nprocess.prepare()\n"
        "from numformer import cli\n"
        "class Verb:\n"
        "    def add_arguments(parser): pass\n"
        "    def run(arguments):\n"
        "        atexit.register(os.rmdir, tempfile.mkdtemp())\n"
        "        with tempfile.TemporaryDirectory():\n"
        f"            {'Finalized()' if finalizer else 'wait()'}\n"
        "            time.sleep(600)\n"
        "def wait(self=None):\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(600)\n"
        "Finalized = type('Finalized', (), {'__del__': wait})\n"
        "cli._module = lambda verb: Verb\n"
        "from numformer.__main__ import command\nsys.argv = ['numformer', 'count']\ncommand()\n")
    found = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True,
                             env={**os.environ, "TMPDIR": str(tmp_path)})
    assert found.stdout.readline() == "ready\n" and len(list(tmp_path.iterdir())) == 2
    found.send_signal(getattr(signal, name))
    out, err = found.communicate(timeout=SECONDS)
    assert (found.returncode, out, err) == (
        (130, "", "numformer: stopped\n") if name == "SIGINT" else (-getattr(signal, name), "", ""))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number, cure", [
    (errno.ENOSPC, "free some space, then resume with: "),
    (errno.EFBIG, "raise the limit on file sizes (ulimit -f), then resume with: "),
    (errno.EACCES, "resume with: "), (errno.EROFS, "resume with: "), (errno.EIO, "resume with: ")])
def test_a_failed_write_names_its_cause_and_only_a_full_disk_asks_for_space(
        capsys, run, monkeypatch, tmp_path, number, cure):
    def failing(self, *_):
        raise OSError(number, os.strerror(number), str(self.checkpoint))

    monkeypatch.setattr(RunFolder, "save", failing)
    status, _, err = call(capsys, "train", "--resume", "--out", run)
    saved = run / "checkpoint.safetensors"
    assert status == 1 and err == (
        f"numformer: {saved}: {os.strerror(number)}; {saved} is intact: {cure}"
        f"numformer train --resume --out {shell_word(run)}\n")


def test_commands_are_quoted_and_names_are_escaped(capsys, text, tmp_path):
    out = tmp_path / "my \x1b[2J run"
    status, said, err = call(capsys, "train", "--data", text, "--out", out, "--stop-at", "2",
                             *SHORT)
    assert status == 0 and "\x1b" not in said + err
    assert f"--out $'{tmp_path}/my \\x1b[2J run'" in said
    status, _, err = call(capsys, "train", "--data", text, "--out", out, *SHORT)
    assert status == 2 and "my \\x1b[2J run contains a run already" in err


def test_a_line_of_metrics_is_written_whole_or_not_at_all(tmp_path):
    folder = RunFolder(tmp_path)
    folder.open()
    folder.append({"step": 1, "loss": 1.0})
    real = folder._file

    class Full:
        """Takes five bytes of a line, and then nothing."""

        def __init__(self):
            self.left = 5

        def write(self, data):
            if not self.left:
                raise OSError(errno.ENOSPC, "No space left on device")
            taken, self.left = real.write(data[:self.left]), 0
            return taken

        def __getattr__(self, name):
            return getattr(real, name)

    folder._file = Full()
    with pytest.raises(OSError, match="metrics.jsonl"):
        folder.append({"step": 2, "loss": 1.0})
    folder._file = real
    folder.append({"step": 2, "loss": 0.5})
    assert folder.read_metrics() == [{"step": 1, "loss": 1.0}, {"step": 2, "loss": 0.5}]
    folder.close()


@posix
@pytest.mark.parametrize("words", [["--help"], ["--version"], ["train", "--help-all"]])
def test_help_that_cannot_be_written_is_an_error(words):
    with open("/dev/full", "w") as full:
        found = subprocess.run([sys.executable, "-c", PROGRAM, *words], stdout=full, text=True,
                               stderr=subprocess.PIPE)
    assert (found.returncode, found.stderr) == (
        1, "numformer: the output cannot be written: No space left on device\n")


def test_messages_escape_control_characters_whatever_they_are_written_to():
    log = io.StringIO()
    stream = process.Messages(Encoded(log))
    show_text("a\x1b[2J\r\u202eb\n\tc", stream)
    assert log.getvalue() == "a\\x1b[2J\\r\\u202eb\n\tc"


class Encoded:
    """A text file."""

    encoding = "utf-8"

    def __init__(self, stream):
        self.stream = stream

    def __getattr__(self, name):
        return getattr(self.stream, name)
