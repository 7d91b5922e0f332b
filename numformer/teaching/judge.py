"""Judge one exercise of one student: ``python -m numformer.teaching.judge``, used by `grade`.

Three processes work together. The *grader* starts one that *judges*, tells it through stdin what,
and reads the judgement from its stdout, as a line of JSON. The judge knows the reference, compares
and counts points. It never runs the student's file: that is in the *student's process*, which gets
calls and sends back arrays (see `numformer.teaching.apart`). A process more waits for the grader's
end (see `lifeline`).
"""

import json
import math
import os
import sys
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from numformer import backend
from numformer.files import MIB, read_file
from numformer.specifications import find_problem
from numformer.teaching.apart.names import our_names
from numformer.teaching.apart.student import NOT_DONE, FileServer, student_file
from numformer.teaching.calls import Ended, Limits, student_of
from numformer.teaching.check import compared
from numformer.teaching.exercise import find_exercises
from numformer.teaching.own_problems import first_error
from numformer.teaching.support.credit import credit
from numformer.teaching.support.lifeline import live_with_grader, remove_this_folder

CLOSE = 1e-6                                          # relative, for answers that are numbers
MOST = MIB                                            # bytes of a student's file
LONGEST = 4000                                        # characters of feedback
CREDIT_SECONDS = 4.0    # of a call for partial credit: a loop must end before the process is ended
RIGHT_ON_OWN = "right: the same numbers as our solution on random problems"
NOT_BEGUN = "not begun"                               # a bug to find that is untouched


def judge(path, name, seed, seconds=10.0, form=None):
    """Judge a student's file.

    Parameters
    ----------
    path : path
    name : str
        Of the exercise.
    seed : int
        Of the random problems, and of the form of the exercise if that is not given.
    seconds : float
        Time limit of a function.
    form : sequence of int, optional
        The form of the exercise. The seed is then known to a key alone: no feedback has it.

    Returns
    -------
    dict
        ``score``, the fraction of the points (0 to 1), ``feedback``, one line of text, and
        ``parts``, for each part (points, highest points) where there is partial credit.
    """
    (exercise,) = find_exercises([name])
    secret, form = form is not None, seed if form is None else tuple(form)
    untouched = is_untouched(read_file(path, MOST), exercise, form)
    if untouched and exercise.bug(form) is None:
        return _judgement(0, NOT_DONE)
    try:
        with student_file(path, seconds) as file:
            trouble = file.load(exercise.function(form))
            if trouble:
                return _judgement(0, trouble)
            if exercise.kind == "answers":
                given, trouble = file.value()
                return _judgement(0, trouble) if trouble else _of_answers(exercise, given, form)
            of = _of_own_problems if exercise.kind == "own" else _of_function
            found = of(exercise, file.student(_solution(exercise, form)), seed, form)
    except Ended as ended:
        return _judgement(0, f"its process ended without an answer: {ended}")
    if secret:
        found["feedback"] = found["feedback"].removesuffix(f"seed={seed}").rstrip()
    if untouched:                                     # a bug to find: what differs, not the cause
        return _judgement(0, f"{NOT_BEGUN}: {found['feedback']}")
    return found


def is_untouched(source, exercise, seed):
    """Whether a file, as bytes, is the student's as it was written, up to spaces."""
    return _lines(source) == _lines(exercise.student(seed).encode())


def is_not_begun(feedback):
    """Whether the feedback on a file says that the student has done nothing in it."""
    return feedback == NOT_DONE or feedback.startswith(f"{NOT_BEGUN}: ")


def judge_answers(name, answers, seed):
    """Feedback on the answers about a figure, such as "right: all 3 answers"; for notebooks."""
    (exercise,) = find_exercises([name])
    found = FileServer(answers).value("", Limits())
    with our_names():
        return found["trouble"] or _of_answers(exercise, found["value"], seed)["feedback"]


@lru_cache(maxsize=1024)
def gets_all_points(exercise, form, other):
    """Whether our answers to the questions of one form are right in another form."""
    given, expected = answers_of(exercise, form), answers_of(exercise, other)
    with backend.using("numpy"):
        return _of_answers(exercise, given, other, expected)["score"] == 1


@lru_cache(maxsize=256)                               # some train, or build models
def answers_of(exercise, form):
    """Our answers to the questions of an exercise: a dict by question."""
    with backend.using("numpy"):
        return _teachers(exercise, form)["answers"]()


def _judgement(score, feedback, parts=()):
    return {"score": float(score), "feedback": feedback, "parts": dict(parts)}


def _of_function(exercise, student, seed, form):
    name, bug = exercise.function(form), exercise.bug(form)
    full_name, problem, backward = find_problem(name)
    verdict = compared(full_name, problem, backward, student, seed, exercise.levels,
                       cause=bug is None)             # which is to be found
    text = " ".join(verdict.text.split()).removeprefix(f"{name}: ")
    if verdict:                                       # the signature is ours: no word about options
        told = replace(verdict, not_tested=(), seed=None).text
        bug_was = f"The bug was: {bug}. " if bug else ""
        return _judgement(1, " ".join(f"{told} {bug_was}seed={seed}".split()))
    if not verdict.written:
        return _judgement(0, _undone(verdict.text))
    if verdict.random:                                # its points would be random, too
        return _judgement(0, text)
    parts = credit(exercise, student.with_limits(
        seconds=min(student.limits.seconds, CREDIT_SECONDS)), name, seed)
    return _judgement(sum(got for got, _ in parts.values()) / exercise.points, text, parts)


def _of_own_problems(exercise, student, seed, form):
    wrong, is_written = first_error(exercise, _teachers(exercise, form), student, seed, form)
    if not wrong:
        return _judgement(1, f"{RIGHT_ON_OWN}. seed={seed}")
    return _judgement(0, " ".join(f"{wrong} seed={seed}".split()) if is_written else NOT_DONE)


def judge_own(name, function, seed):
    """Feedback on a function that its exercise compares on own problems; for notebooks."""
    (exercise,) = find_exercises([name])
    return _of_own_problems(exercise, student_of(function), seed, seed)["feedback"]


def _undone(text):
    """Feedback on a function that does nothing, or returns nothing."""
    return NOT_DONE + "".join(text.partition(": it returns None")[1:]).partition(" hint(")[0]


def _solution(exercise, form):
    """The function of the teacher's file."""
    return _teachers(exercise, form)[exercise.function(form)]


def _teachers(exercise, form):
    names = {}
    exec(compile(exercise.teacher(form), exercise.name, "exec"), names)
    return names


def _of_answers(exercise, given, form, expected=None):
    teachers = _teachers(exercise, form)
    expected = teachers["answers"]() if expected is None else expected
    if not isinstance(given, dict) or set(given) != set(expected):
        return _judgement(0, f"answers() must return a dict of {', '.join(expected)}")
    right = {question: _same(given[question], answer) for question, answer in expected.items()}
    if "accepts" in teachers:                         # a question with more than one right answer
        with suppress(Exception):                     # `given` may have any form
            right.update(teachers["accepts"](given))
    wrong = [question for question in expected if not right[question]]
    n, n_right = len(expected), len(expected) - len(wrong)
    if not wrong:
        return _judgement(1, f"right: all {n} answers")
    share = exercise.points / n
    return _judgement(n_right / n, f"wrong: {', '.join(wrong)}; {n_right} of {n} right",
                      {question: (share * right[question], share) for question in expected})


def _same(given, answer):
    """Whether an answer is right; numbers up to rounding."""
    if isinstance(answer, str):
        return str(given).strip().lower() == answer
    if isinstance(answer, bool):
        return given == answer
    with suppress(OverflowError, TypeError, ValueError):
        return math.isclose(float(given), answer, rel_tol=CLOSE)
    return False


def _lines(source):
    """The lines of a file, without spaces at their ends and empty lines."""
    return [line.rstrip() for line in source.splitlines() if line.strip()]


def main():
    """Judge what a line of stdin asks for, and write the judgement to stdout."""
    try:
        task = json.loads(sys.stdin.readline())
    except ValueError:                                # the grader ended meanwhile
        remove_this_folder()
        return
    result = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)      # what is printed is no judgement
    backend.use("numpy")                              # a cold cache of kernels costs a minute
    live_with_grader()
    judgement = judge(**task)
    judgement["feedback"] = judgement["feedback"][:LONGEST]
    os.write(result, json.dumps(judgement).encode())  # less than a pipe holds
    os._exit(0)


if __name__ == "__main__":
    main()
