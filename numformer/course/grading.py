"""Grades for a student's folder: every exercise in a process of its own, so that whatever one does, the others are graded."""

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
from numformer.course.assignment import MANIFEST, chosen_pages

SECONDS = 20.0                                                        # that one exercise may take


def grade(folder, seconds=SECONDS, workers=None):
    """Grade a folder that `write_assignment` made and a student worked in.

    Parameters
    ----------
    folder : path
    seconds : float, above 0
        After which an exercise is stopped.
    workers : int, optional
        Exercises at a time; as many as there are cores unless given.

    Returns
    -------
    list of dict
        For each exercise ``name``, ``points``, ``of`` (how many there are) and ``said``.

    Raises
    ------
    ValueError
        If the folder holds no assignment.
    """
    check_number("grade", "seconds", seconds, above=0)
    seed, names = _manifest(Path(folder))
    chosen = chosen_pages(names)

    def graded(page):
        verdict = _judged(Path(folder) / f"{page.name}.py", page.name, seed, seconds)
        return {"name": page.name, "points": round(page.points * verdict["part"], 2), "of": page.points, "said": verdict["said"]}

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
        raise ValueError(f"{path} does not say which exercises these are; make the folder anew.") from None


def _judged(path, name, seed, seconds):
    """The verdict on one file."""
    if not path.is_file():
        return {"part": 0.0, "said": f"{path.name} is not there, or is no file"}
    root = str(Path(__file__).resolve().parents[2])
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as elsewhere:
        # not the student's folder: a numpy.py in it would be imported
        result = Path(elsewhere) / "result.json"
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "numformer.course.judge", str(path.resolve()), name, str(seed), str(result)], cwd=elsewhere,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])]), "MPLBACKEND": "Agg"})
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return _verdict(result) or {"part": 0.0, "said": f"stopped after {seconds:g} s: is there a loop that does not end?"}
        finally:
            _end(process)
        return _verdict(result) or {"part": 0.0, "said": f"its process ended without an answer (exit status {status})"}


def _verdict(result):
    """What the judge wrote; None where that is nothing, or something else."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        verdict = json.loads(result.read_text(encoding="utf-8"))
        return {"part": min(max(float(verdict["part"]), 0.0), 1.0), "said": str(verdict["said"])}


def _end(process):
    """Stop it, and whatever it started where the system knows of groups of processes."""
    with suppress(OSError):                                           # nobody is left: the usual case
        os.killpg(process.pid, signal.SIGKILL) if hasattr(os, "killpg") else process.kill()
    process.wait()
