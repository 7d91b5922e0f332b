"""Judge one exercise of one student: ``python -m numformer.teaching.judge``, used by `grade`.

It runs in a process of its own, with limits. What to judge comes as JSON through stdin, with a
token that the judgement has to repeat, so that the student's file finds neither in the arguments.
It ends with the grader (see `lifeline`).
What the file prints does not matter: the judgement is written into a file, as JSON.
"""

import importlib.util
import json
import math
import os
import re
import sys
import traceback
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from numformer import backend
from numformer.files import MIB, read_file
from numformer.teaching.check import check
from numformer.teaching.exercise import find_exercises
from numformer.teaching.support.lifeline import live_with_grader, remove_this_folder
from numformer.teaching.limits import Stopped, limit_process, limited
from numformer.teaching.support.credit import credit

CLOSE = 1e-6                                          # relative, for answers that are numbers
MOST = MIB                                            # bytes of a student's file
MEMORY = 768 * MIB       # of its functions: less than that of the process, which then can say so
CREDIT_SECONDS = 4.0    # of a call for partial credit: a loop must end before the process is ended
NOT_DONE, NOT_BEGUN = "not done yet", "not begun"      # a bug to find that is untouched


def judge(path, name, seed, seconds=10.0):
    """Judge a student's file.

    Parameters
    ----------
    path : path
    name : str
        Of the exercise.
    seed : int
        Of the assignment.
    seconds : float
        Time limit of a function.

    Returns
    -------
    dict
        ``score``, the fraction of the points (0 to 1), ``feedback``, one line of text, and
        ``parts``, for each part (points, highest points) where there is partial credit.
    """
    (exercise,) = find_exercises([name])
    settings, function_name = np.geterr(), exercise.function(seed)
    untouched = is_untouched(read_file(path, MOST), exercise, seed)
    if untouched and exercise.bug(seed) is None:
        return _judgement(0, NOT_DONE)
    try:
        module = limited(_imported, seconds, MEMORY)(path)
    except NotImplementedError:
        return _judgement(0, NOT_DONE)
    except BaseException as error:                    # SystemExit too: a file may do anything
        return _judgement(0, f"the file cannot be imported: {_described(error, path)}")
    np.seterr(**settings)                             # a file may have changed them
    function = getattr(module, function_name, None)
    if not callable(function):
        return _judgement(0, f"there is no function {function_name} in it")
    if exercise.kind == "check":
        found = _judge_function(exercise, function, path, seed, seconds)
        if untouched:                                 # a bug to find: what differs, not the cause
            return _judgement(0, f"{NOT_BEGUN}: {found['feedback']}")
        return found
    return _judge_answers(exercise, limited(function, seconds, MEMORY), path, seed)


def is_untouched(source, exercise, seed):
    """Whether a file, as bytes, is the student's as it was written, up to spaces."""
    return _lines(source) == _lines(exercise.student(seed).encode())


def is_not_begun(feedback):
    """Whether the feedback on a file says that the student has done nothing in it."""
    return feedback == NOT_DONE or feedback.startswith(f"{NOT_BEGUN}: ")


def judge_answers(name, answers, seed):
    """Feedback on the answers about a figure, such as "right: all 3 answers"; for notebooks."""
    (exercise,) = find_exercises([name])
    return _judge_answers(exercise, answers, None, seed)["feedback"]


def _judgement(score, feedback, parts=()):
    return {"score": float(score), "feedback": feedback, "parts": dict(parts)}


def _judge_function(exercise, function, path, seed, seconds):
    name, bug = exercise.function(seed), exercise.bug(seed)
    try:
        verdict = check(name, function, seed, exercise.levels, seconds, MEMORY,
                        process=False,                                # it has this one
                        cause=bug is None)                            # which is to be found
        text = " ".join(_without_solution(verdict).split()).removeprefix(f"{name}: ")
        if verdict:                                   # the signature is ours: no word about options
            told = replace(verdict, not_tested=(), seed=None).text
            bug_was = f"The bug was: {bug}. " if bug else ""
            text = " ".join(f"{told} {bug_was}seed={seed}".split())
        if verdict or not verdict.written:
            return _judgement(verdict.ok, text if verdict else _undone(verdict.text))
        if verdict.random:                            # its points would be random, too
            return _judgement(0, text)
        again = limited(function, min(seconds, CREDIT_SECONDS), MEMORY)
        parts = credit(exercise, again, name, seed)
    except BaseException as error:                    # SystemExit and others that `check` lets pass
        return _judgement(0, f"it raised {_described(error, path)}")
    return _judgement(sum(got for got, _ in parts.values()) / exercise.points, text, parts)


def _without_solution(verdict):
    """The text of a verdict; of a cause that quotes the reference, only what differs is kept."""
    found = re.search(r"the same numbers come from .*? \(in \w+\) (with.*)", verdict.cause)
    return verdict.text if not found else verdict.text.replace(
        verdict.cause, f"the same numbers come from the right lines {found[1]}")


def _undone(text):
    """Feedback on a function that does nothing, or returns nothing."""
    return NOT_DONE + "".join(text.partition(": it returns None")[1:]).partition(" hint(")[0]


def _judge_answers(exercise, function, path, seed):
    try:
        given = function()
    except NotImplementedError:
        return _judgement(0, NOT_DONE)
    except BaseException as error:
        return _judgement(0, f"answers() raised {_described(error, path)}")
    solution = {}
    exec(compile(exercise.teacher(seed), exercise.name, "exec"), solution)
    expected = solution["answers"]()
    if not isinstance(given, dict) or set(given) != set(expected):
        return _judgement(0, f"answers() must return a dict of {', '.join(expected)}")
    right = {question: _same(given[question], answer) for question, answer in expected.items()}
    if "accepts" in solution:                         # a question with more than one right answer
        with suppress(Exception):                     # `given` may have any form
            right.update(solution["accepts"](given))
    wrong = [question for question in expected if not right[question]]
    n, n_right = len(expected), len(expected) - len(wrong)
    if not wrong:
        return _judgement(1, f"right: all {n} answers")
    share = exercise.points / n
    return _judgement(n_right / n, f"wrong: {', '.join(wrong)}; {n_right} of {n} right",
                      {question: (share * right[question], share) for question in expected})


def _same(given, answer):
    """Whether an answer is right; numbers up to rounding."""
    try:
        if isinstance(answer, str):
            return str(given).strip().lower() == answer
        if isinstance(answer, bool):
            return bool(given == answer)
        return math.isclose(float(given), answer, rel_tol=CLOSE)
    except Exception:                                 # of an object of the student's, any
        return False


def _lines(source):
    """The lines of a file, without spaces at their ends and empty lines."""
    return [line.rstrip() for line in source.splitlines() if line.strip()]


def _imported(path):
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _described(error, path):
    """An exception, with the last line of the student's own file in its traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    if isinstance(error, SyntaxError) and error.lineno:
        lines.append(error.lineno)
    try:
        message = " ".join(str(getattr(error, "msg", error)).split())
    except Exception:                                 # its __str__ raises, too
        message = ""
    name = "" if isinstance(error, Stopped) else type(error).__name__
    text = ": ".join(filter(None, [name, message]))
    return text + (f" (line {lines[-1]})" if lines else "")


def main():
    """Judge what a line of stdin asks for, and write the judgement."""
    try:
        task = json.loads(sys.stdin.readline())
    except ValueError:                                # the grader ended meanwhile
        remove_this_folder()
        return
    token, result = task.pop("token"), Path(task.pop("result"))
    backend.use("numpy")                              # a cold cache of kernels costs a minute
    limit_process(task["seconds"])
    live_with_grader()
    judgement = {**judge(**task), "token": token}
    judgement["feedback"] = judgement["feedback"].encode("utf-8", "replace").decode()
    result.write_text(json.dumps(judgement), encoding="utf-8")
    os._exit(0)                                       # also ends threads that the file has started


if __name__ == "__main__":
    main()
