"""Grade a student's folder: each exercise in a process of its own, so that none affects others.

Whatever lies in the folder was written by somebody else: only regular files of limited size are
read, and links are not followed. A judgement comes from the judge's process, in which no file of a
student runs; only a score, one line of text and points by part are taken from it.
"""

import io
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

from numformer.backend import available_cores, can_start_threads
from numformer.checks import check_number, check_whole
from numformer.files import KIB, FileError, parse_json, read_file
from numformer.teaching import judge
from numformer.teaching.assignment import MANIFEST
from numformer.teaching.exercise import find_exercises
from numformer.teaching.limits import Stopwatch
from numformer.teaching.support.lifeline import PREFIX, remove_folder
from numformer.terminal import printable, shortened

SECONDS = 20.0                                        # time limit of one exercise
STARTING = 10.0                                       # further seconds, for Python to start
ENDING = 5.0                                          # seconds for a judge to clear up
MOST = 64 * KIB                                       # bytes of a manifest or a judgement
LONGEST = 600                                         # characters of a line of feedback
PYTHONS = ("PYTHONWARNINGS", "PYTHONOPTIMIZE", "PYTHONINSPECT")    # variables of the grader alone
OWN = "student's"                                     # folder, in that of the judge
MOST_PARTS = 20                                       # of an exercise


def grade(folder, seconds=SECONDS, workers=None, names=None):
    """Grade a folder that `write_assignment` made and a student worked in.

    Parameters
    ----------
    folder : path
    seconds : float, above 0
        Time limit of one exercise: of its import, of each call of its function, and with 10 s for
        the start of Python of both together.
    workers : int, optional
        Exercises at a time; the number of cores by default.
    names : sequence of str, optional
        Names of the exercises to grade; all of the folder by default.

    Returns
    -------
    list of dict
        For each exercise ``name``, ``points``, ``of`` (the highest number of points),
        ``feedback``, and ``parts``: where some of the points were given, {part: (points, highest
        number of points)}.

    Raises
    ------
    ValueError
        If the folder holds no assignment, or the assignment has no such exercise.
    """
    check_number("grade", "seconds", seconds, above=0, below=1e6)
    seed, chosen = assignment_of(folder)
    seconds = float(seconds)                          # JSON knows no other
    for name in names or ():
        if name not in [exercise.name for exercise in chosen]:
            raise ValueError(f"grade: the assignment in {folder} has no exercise {name}; it has "
                             f"{', '.join(exercise.name for exercise in chosen)}.")
    chosen = [exercise for exercise in chosen if not names or exercise.name in names]
    judges = _Judges()

    def graded(exercise):
        path = Path(folder) / f"{exercise.name}.py"
        judgement = _judged(path, exercise, seed, seconds, judges)
        points = round(exercise.points * judgement["score"], 2)
        return {"name": exercise.name, "points": points, "of": exercise.points,
                "feedback": judgement["feedback"], "parts": judgement["parts"]}

    if not has_processes() or not can_start_threads():
        return list(map(graded, chosen))
    pool = ThreadPoolExecutor(workers or available_cores())
    try:
        return list(pool.map(graded, chosen))
    finally:                                          # after Ctrl-C, or another signal, too
        judges.end()
        pool.shutdown(cancel_futures=True)


def assignment_of(folder):
    """(seed, exercises) of a folder that `write_assignment` made; ValueError if it is none."""
    seed, names = _manifest(Path(folder))
    return seed, find_exercises(names)


def has_processes():
    """Whether this system can start processes: not in a browser, where files are judged here."""
    return sys.platform not in ("emscripten", "wasi")


def _manifest(folder):
    """(seed, names of the exercises) of a folder."""
    path = folder / MANIFEST
    try:
        manifest = parse_json(read_file(path, MOST, follow_links=False))
        seed, names = manifest["seed"], [str(name)[:100] for name in manifest["exercises"]]
        check_whole("grade", "seed", seed, least=0)
        return seed, names
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f"there is no {path}; give a folder that `numformer exercises` "
                         "made.") from None
    except FileError:
        raise
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}; make it readable.") from None
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} does not name a seed and exercises; make the folder again with "
                         "`numformer exercises`.") from None


class _Judges:
    """The processes that judge at the moment."""

    def __init__(self):
        self.running, self.ended = set(), False

    def add(self, process):
        self.running.add(process)
        if self.ended:                                # meanwhile: nobody waits for it
            _end(process)

    def end(self):
        """End all of them, and those that are still to come."""
        self.ended = True
        for process in list(self.running):
            _end(process)


def _judged(path, exercise, seed, seconds, judges):
    """The judgement on one file."""
    try:
        source = read_file(path, judge.MOST, follow_links=False)
    except (OSError, ValueError):
        if path.is_file() and not path.is_symlink():
            return _failed(f"{path.name} is too large, or cannot be read")
        return _failed(f"{path.name} does not exist, or is not a file")
    if judge.is_untouched(source, exercise, seed) and exercise.bug(seed) is None:
        return _failed(judge.NOT_DONE)                # without a process, which takes a second
    elsewhere = None
    try:
        elsewhere = Path(tempfile.mkdtemp(prefix=PREFIX))
        if not has_processes():
            return _judged_here(elsewhere, source, exercise.name, seed, seconds)
        return _judged_there(elsewhere, source, exercise.name, seed, seconds, judges)
    except OSError as error:                          # the disk may be full
        return _failed(f"it could not be judged: {error.strerror}")
    finally:
        if elsewhere is not None:
            remove_folder(elsewhere)


def _copied(source, elsewhere, name):
    """The path of a copy of the source, in a folder of its own: where the student may write.

    The judge works in the folder around it. What it imports after the student's file has run, and
    what a library looks for in the folder it works in, cannot be the student's.
    """
    (elsewhere / OWN).mkdir()
    copy = elsewhere / OWN / f"{name}.py"
    copy.write_bytes(source)
    return copy


def _judged_there(elsewhere, source, name, seed, seconds, judges):
    """The judgement on a source, by a process in the folder `elsewhere`.

    It is not the student's folder: a numpy.py there would be imported. The process has its stdin
    from here as long as this one lives (see `lifeline`).
    """
    copy = _copied(source, elsewhere, name)
    task = {"path": str(copy), "name": name, "seed": seed, "seconds": seconds}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "numformer.teaching.judge"], cwd=elsewhere,
        env=_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, start_new_session=True)
    judges.add(process)
    try:
        with suppress(OSError):                       # it may have ended already
            process.stdin.write(json.dumps(task).encode() + b"\n")
            process.stdin.flush()
        status = _status(process, seconds + STARTING)
    except subprocess.TimeoutExpired:
        return _failed(f"stopped after {seconds:g} s: is there an endless loop?")
    finally:
        _end(process)
        judges.running.discard(process)
        data = _written(process)
    return (_judgement(data)
            or _failed(f"its process ended without an answer (exit status {status})"))


def _status(process, seconds):
    """The exit status of a judge; TimeoutExpired after so many seconds in which it had a core."""
    stopwatch = Stopwatch(process.pid, families=True)
    while True:
        try:
            return process.wait(max(seconds - stopwatch.elapsed(), 0.5))
        except subprocess.TimeoutExpired:
            if stopwatch.counted(seconds) > seconds:
                raise


def _judged_here(elsewhere, source, name, seed, seconds):
    """The same in this process, without protection from what the source does."""
    copy = _copied(source, elsewhere, name)
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        try:
            found = judge.judge(str(copy), name, seed, seconds)
        except Exception as error:                    # it may have changed anything
            return _failed(f"it could not be judged: {type(error).__name__}")
    return {**found, "feedback": _one_line(found["feedback"])}


def _environment():
    """The environment of a judge: this package can be imported, no window opens, one BLAS thread.

    Several judges run at a time, and the buffers of many threads would count as its memory. Points
    do not depend on how the grader's Python treats warnings and asserts. Nothing is imported from
    the folder in which the judge runs: an empty path would mean that.
    """
    root = str(Path(__file__).resolve().parents[2])
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = [root, *(os.path.abspath(path) for path in given if path)]
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    usual = {name: value for name, value in os.environ.items() if name not in PYTHONS}
    return {**usual, **threads, "PYTHONPATH": os.pathsep.join(paths), "MPLBACKEND": "Agg"}


def _failed(feedback):
    return {"score": 0.0, "feedback": feedback, "parts": {}}


def _written(process):
    """What a process that has ended had written to its stdout, which is closed."""
    with process.stdout as file:
        if hasattr(os, "set_blocking") and os.name == "posix":
            os.set_blocking(file.fileno(), False)     # whoever still has it open is not waited for
        return file.read(MOST + 1) or b""


def _judgement(data):
    """What the judge wrote; None if that is nothing, or something else."""
    with suppress(ValueError, KeyError, TypeError):
        found = parse_json(data) if len(data) <= MOST else None
        score, feedback = found["score"], found["feedback"]
        if isinstance(score, float) and math.isfinite(score) and isinstance(feedback, str):
            return {"score": min(max(score, 0.0), 1.0), "feedback": _one_line(feedback),
                    "parts": _parts(found.get("parts"))}


def _parts(found):
    """{part: (points, highest points)}; {} if that is not what was found."""
    if not isinstance(found, dict) or len(found) > MOST_PARTS:
        return {}
    with suppress(ValueError, TypeError):
        parts = {_one_line(name)[:40]: (float(got), float(of)) for name, (got, of) in found.items()}
        if all(0 <= got <= of < 100 for got, of in parts.values()):
            return parts
    return {}


def _one_line(text):
    """A text as one line that a terminal can show."""
    return printable(shortened(" ".join(text.split()), LONGEST))


def _end(process):
    """End the process, and what it has started: without its stdin it does so itself, or not."""
    with suppress(OSError):
        process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(ENDING)
    with suppress(OSError):                           # it has ended already: the usual case
        os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()
    process.wait()
