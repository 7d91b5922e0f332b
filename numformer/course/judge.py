"""One exercise of one student, judged in a process of its own: ``python -m numformer.course.judge FILE NAME SEED RESULT``.

What the student's file prints is nobody's business here: the verdict goes into the file RESULT, as JSON.
"""

import importlib.util
import json
import math
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path

import numpy as np

from numformer.course.assignment import chosen_pages
from numformer.verify import check

CLOSE = 1e-6                                                          # relative, of numbers that are answers


def judge(path, name, seed):
    """What is to be said of a student's file.

    Parameters
    ----------
    path : path
    name : str
        Of the exercise.
    seed : int
        Of the assignment.

    Returns
    -------
    dict
        ``part`` of the points, 0 to 1, and ``said``.
    """
    (page,) = chosen_pages([name])
    kept = np.geterr()
    try:
        module = _imported(path)
    except NotImplementedError:
        return {"part": 0.0, "said": "not done yet"}
    except BaseException as error:                                    # SystemExit, too: a file may do anything
        return {"part": 0.0, "said": f"the file cannot be imported: {_in_words(error, path)}"}
    np.seterr(**kept)                                                 # a file's own choice would fail our numbers, too
    function = getattr(module, page.function(seed), None)
    if not callable(function):
        return {"part": 0.0, "said": f"there is no function {page.function(seed)} in it"}
    return _checked(page, function, path, seed) if page.kind == "check" else _answered(page, function, path, seed)


def judged_answers(name, answers, seed):
    """What is to be said of the answers to a figure's questions, such as "right: all 3 answers"; for a notebook's tests."""
    (page,) = chosen_pages([name])
    return _answered(page, answers, None, seed)["said"]


def _checked(page, function, path, seed):
    try:
        verdict = check(page.function(seed), function, seed, page.levels)
    except BaseException as error:                                    # SystemExit and the like, which check lets pass
        return {"part": 0.0, "said": f"it raised {_in_words(error, path)}"}
    undone = "it raised NotImplementedError" in verdict.text
    return {"part": float(verdict.ok), "said": "not done yet" if undone else " ".join(verdict.text.split())}


def _answered(page, function, path, seed):
    reference = {}
    exec(compile(page.teacher(seed), page.name, "exec"), reference)
    truth = reference["answers"]()
    try:
        given = function()
    except NotImplementedError:
        return {"part": 0.0, "said": "not done yet"}
    except BaseException as error:
        return {"part": 0.0, "said": f"answers() raised {_in_words(error, path)}"}
    if not isinstance(given, dict) or set(given) != set(truth):
        return {"part": 0.0, "said": f"answers() must return a dict of {', '.join(truth)}"}
    right = {question: _same(given[question], answer) for question, answer in truth.items()}
    if "accepts" in reference:                                        # a question with more than one answer
        with suppress(Exception):                                     # not to one of another form
            right.update(reference["accepts"](given))
    wrong = [question for question in truth if not right[question]]
    said = f"wrong: {', '.join(wrong)}; {len(truth) - len(wrong)} of {len(truth)} right" if wrong else f"right: all {len(truth)} answers"
    return {"part": 1 - len(wrong) / len(truth), "said": said}


def _same(given, answer):
    """Whether an answer is right; numbers up to rounding."""
    try:
        if isinstance(answer, str):
            return str(given).strip().lower() == answer
        if isinstance(answer, bool):
            return bool(given == answer)
        return math.isclose(float(given), answer, rel_tol=CLOSE)
    except (TypeError, ValueError):
        return False


def _imported(path):
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _in_words(error, path):
    """An exception with the last line of the student's own that it passed."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    lines += [error.lineno] if isinstance(error, SyntaxError) and error.lineno else []
    try:
        words = " ".join(str(error).split())
    except Exception:                                                 # an exception that cannot be written out
        words = ""
    return type(error).__name__ + (f": {words}" if words else "") + (f" (line {lines[-1]})" if lines else "")


if __name__ == "__main__":
    file, name, seed, result = sys.argv[1:]
    verdict = judge(file, name, int(seed))
    Path(result).write_text(json.dumps({**verdict, "said": verdict["said"].encode("utf-8", "replace").decode()}), encoding="utf-8")
    os._exit(0)                                                       # whatever threads the file has begun
