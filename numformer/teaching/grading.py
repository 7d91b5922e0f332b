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
from typing import NamedTuple

from numformer.backend import available_cores, can_start_threads, has_processes
from numformer.checks import check_number
from numformer.files import KIB, parse_json, read_file
from numformer.teaching import judge
from numformer.teaching.exercise import find_exercises
from numformer.teaching.limits import Stopwatch
from numformer.teaching.manifest import read_manifest
from numformer.teaching.support.lifeline import PREFIX, remove_folder
from numformer.teaching.variants.written import handed_in
from numformer.terminal import printable, shortened

SECONDS = 20.0                                        # time limit of one exercise
STARTING = 10.0                                       # further seconds, for Python to start
ENDING = 5.0                                          # seconds for a judge to clear up
MOST = 64 * KIB                                       # bytes of a judgement
LONGEST = 600                                         # characters of a line of feedback
PYTHONS = ("PYTHONWARNINGS", "PYTHONOPTIMIZE", "PYTHONINSPECT")    # variables of the grader alone
OWN = "student's"                                     # folder, in that of the judge
MOST_PARTS = 20                                       # of an exercise


class Assignment(NamedTuple):
    """What a folder of exercises says of itself, or its key.

    Parameters
    ----------
    exercises : list of Exercise
    seed : int or None
        Of the problems; None of a variant without its key.
    forms : dict
        {name of an exercise: its form}, of a variant.
    """

    exercises: list
    seed: int | None
    forms: dict = {}

    def form(self, exercise):
        """The form of an exercise, or the seed that chooses it."""
        return self.forms.get(exercise.name, self.seed)


def grade(folder, seconds=SECONDS, workers=None, names=None, key=None):
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
    key : Key, optional
        Of the variant that `write_variant` made.

    Returns
    -------
    list of dict
        For each exercise ``name``, ``points``, ``of`` (the highest number of points),
        ``feedback``, and ``parts``: where some of the points were given, {part: (points, highest
        number of points)}. With a key also ``written``, on the answer in words: see
        `numformer.teaching.variants.written.handed_in`.

    Raises
    ------
    ValueError
        If the folder holds no assignment, the assignment has no such exercise, or it is a variant
        of another key or of none.
    """
    check_number("grade", "seconds", seconds, above=0, below=1e6)
    assignment = assignment_of(folder, key)
    chosen = assignment.exercises
    seconds = float(seconds)                          # JSON knows no other
    for name in names or ():
        if name not in [exercise.name for exercise in chosen]:
            raise ValueError(f"grade: the assignment in {folder} has no exercise {name}; it has "
                             f"{', '.join(exercise.name for exercise in chosen)}.")
    chosen = [exercise for exercise in chosen if not names or exercise.name in names]
    judges = _Judges()

    def graded(exercise):
        path = Path(folder) / f"{exercise.name}.py"
        judgement = _judged(path, exercise, assignment, seconds, judges)
        points = round(exercise.points * judgement["score"], 2)
        more = {} if key is None else {"written": handed_in(folder, exercise, key)}
        return {"name": exercise.name, "points": points, "of": exercise.points,
                "feedback": judgement["feedback"], "parts": judgement["parts"], **more}

    if not has_processes() or not can_start_threads():
        return list(map(graded, chosen))
    pool = ThreadPoolExecutor(workers or available_cores())
    try:
        return list(pool.map(graded, chosen))
    finally:                                          # after Ctrl-C, or another signal, too
        judges.end()
        pool.shutdown(cancel_futures=True)


def assignment_of(folder, key=None):
    """The assignment of a folder; ValueError if there is none, or another key is needed."""
    folder, manifest = Path(folder), read_manifest(folder)
    if key is not None:
        key.check(folder, manifest)
        return Assignment(find_exercises(key.exercises), key.problems, key.forms)
    if manifest.variant:
        raise ValueError(f"{folder} is of a variant, which is graded with the key that its teacher "
                         "has: numformer grade --key KEY.")
    return Assignment(find_exercises(manifest.exercises), manifest.seed)


def forms_of(folder):
    """The same of a student's folder without its key: exercises and forms, and no seed if it is
    of a variant. For what is not graded, such as hints."""
    manifest = read_manifest(folder)
    return Assignment(find_exercises(manifest.exercises), manifest.seed, manifest.forms)


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


def _judged(path, exercise, assignment, seconds, judges):
    """The judgement on one file."""
    try:
        source = read_file(path, judge.MOST, follow_links=False)
    except (OSError, ValueError):
        if path.is_file() and not path.is_symlink():
            return _failed(f"{path.name} is too large, or cannot be read")
        return _failed(f"{path.name} does not exist, or is not a file")
    form = assignment.form(exercise)
    if judge.is_untouched(source, exercise, form) and exercise.bug(form) is None:
        return _failed(judge.NOT_DONE)                # without a process, which takes a second
    elsewhere = None
    task = {"name": exercise.name, "seed": assignment.seed, "seconds": seconds,
            "form": assignment.forms.get(exercise.name)}
    try:
        elsewhere = Path(tempfile.mkdtemp(prefix=PREFIX))
        if not has_processes():
            return _judged_here(elsewhere, source, task)
        return _judged_there(elsewhere, source, task, judges)
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


def _judged_there(elsewhere, source, task, judges):
    """The judgement on a source, by a process in the folder `elsewhere`.

    It is not the student's folder: a numpy.py there would be imported. The process has its stdin
    from here as long as this one lives (see `lifeline`).
    """
    task = {**task, "path": str(_copied(source, elsewhere, task["name"]))}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "numformer.teaching.judge"], cwd=elsewhere,
        env=_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, start_new_session=True)
    judges.add(process)
    try:
        with suppress(OSError):                       # it may have ended already
            process.stdin.write(json.dumps(task).encode() + b"\n")
            process.stdin.flush()
        status = _status(process, task["seconds"] + STARTING)
    except subprocess.TimeoutExpired:
        return _failed(f"stopped after {task['seconds']:g} s: is there an endless loop?")
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


def _judged_here(elsewhere, source, task):
    """The same in this process, without protection from what the source does."""
    copy = _copied(source, elsewhere, task["name"])
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        try:
            found = judge.judge(str(copy), **task)
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
