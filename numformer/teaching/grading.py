"""Grade a student's folder: each exercise in a process of its own, so that none affects others."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from numformer.checks import check_number, check_whole
from numformer.teaching.assignment import MANIFEST
from numformer.teaching.exercise import find_exercises

SECONDS = 20.0                                        # time limit of one exercise


def grade(folder, seconds=SECONDS, workers=None):
    """Grade a folder that `write_assignment` made and a student worked in.

    Parameters
    ----------
    folder : path
    seconds : float, above 0
        Time limit of one exercise.
    workers : int, optional
        Exercises at a time; the number of cores by default.

    Returns
    -------
    list of dict
        For each exercise ``name``, ``points``, ``of`` (the highest number of points) and
        ``feedback``.

    Raises
    ------
    ValueError
        If the folder holds no assignment.
    """
    check_number("grade", "seconds", seconds, above=0)
    seed, names = _manifest(Path(folder))
    chosen = find_exercises(names)

    def graded(exercise):
        path = Path(folder) / f"{exercise.name}.py"
        judgement = _judged(path, exercise.name, seed, seconds)
        points = round(exercise.points * judgement["score"], 2)
        return {"name": exercise.name, "points": points, "of": exercise.points,
                "feedback": judgement["feedback"]}

    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        return list(pool.map(graded, chosen))


def _manifest(folder):
    """(seed, names of the exercises) of a folder."""
    path = folder / MANIFEST
    if not path.is_file():
        raise ValueError(f"there is no {path}; give a folder that `numformer exercises` made.")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        seed, names = manifest["seed"], [str(name) for name in manifest["exercises"]]
        check_whole("grade", "seed", seed, least=0)
        return seed, names
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} does not name a seed and exercises; make the folder again with "
                         "`numformer exercises`.") from None


def _judged(path, name, seed, seconds):
    """The judgement on one file."""
    if not path.is_file():
        return _failed(f"{path.name} does not exist, or is not a file")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as elsewhere:
        # not in the student's folder: a numpy.py there would be imported
        result = Path(elsewhere) / "result.json"
        arguments = [str(path.resolve()), name, str(seed), str(result)]
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "numformer.teaching.judge", *arguments],
            cwd=elsewhere, env=_environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return _judgement(result) or _failed(f"stopped after {seconds:g} s: is there an "
                                                 "endless loop?")
        finally:
            _end(process)
        return _judgement(result) or _failed("its process ended without an answer (exit status "
                                             f"{status})")


def _environment():
    """The environment of a judge: this package can be imported, and no window opens."""
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "MPLBACKEND": "Agg"}


def _failed(feedback):
    return {"score": 0.0, "feedback": feedback}


def _judgement(result):
    """What the judge wrote; None if that is nothing, or something else."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        judgement = json.loads(result.read_text(encoding="utf-8"))
        return {"score": min(max(float(judgement["score"]), 0.0), 1.0),
                "feedback": str(judgement["feedback"])}


def _end(process):
    """Stop the process, and what it started if the system has process groups."""
    with suppress(OSError):                           # it has ended already: the usual case
        os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()
    process.wait()
