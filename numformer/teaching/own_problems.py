"""Functions without a backward, such as a step of AdamW: an exercise that brings its own problems.

`check` knows pairs of a function and its backward. Other functions are compared with the solution
of the exercise, on the random problems that its page makes.
"""

import inspect

import numpy as np

from numformer.teaching.apart.messages import NOT_WRITTEN, Strange
from numformer.teaching.calls import Call
from numformer.teaching.causes.evidence import same
from numformer.teaching.check import AGAIN, RANDOM
from numformer.teaching.comparison import CLOSE, EPSILON, ROUNDINGS, no_array, wrong_array


def own_problems(exercise, names, seed, form=None):
    """The problems of an exercise: a list of (what is special, arguments by name).

    Parameters
    ----------
    exercise : Exercise
    names : dict
        What the teacher's file defines: the function, and `problems(rng)`, which returns a dict of
        tuples of arguments.
    seed : int
        Of the problems.
    form : tuple of int, optional
        Of the exercise; the one of the seed by default.
    """
    function = names[exercise.function(seed if form is None else form)]
    parameters = inspect.signature(function).parameters
    made = names["problems"](np.random.default_rng([seed, int(exercise.name[:2])]))
    return [(special, dict(zip(parameters, arguments))) for special, arguments in made.items()]


def first_error(exercise, names, student, seed, form=None):
    """(What is wrong with a student's function, "" if nothing is; whether it is written).

    Parameters
    ----------
    exercise, names, seed, form
        As in `own_problems`.
    student : Student
    """
    problems = own_problems(exercise, names, seed, form)
    name = exercise.function(seed if form is None else form)
    solution = names[name]
    one = len(exercise.outputs) == 1                  # which may be the first of several
    calls = [Call({}, given, {}, None, one, backward=not one)
             for _, given in [*problems, *problems]]
    answers, shared = student.answers(calls)
    for n, (special, given) in enumerate(problems):
        outputs, trouble = answers[n]
        if trouble:
            return f"{trouble} (problem: {special})", trouble.kind != NOT_WRITTEN
        expected = solution(**given)
        expected = expected if isinstance(expected, tuple) else (expected,)
        if wrong := _wrong(name, exercise.outputs, outputs, expected):
            cause = likely_cause(names, problems, answers)
            cause = f" Likely cause: {cause}." if cause else ""
            return f"{wrong.removeprefix(f'{name}: ')} Problem: {special}.{cause}", True
        again, trouble = answers[len(problems) + n]
        if trouble:
            return f"{trouble}; {AGAIN} (problem: {special})", True
        if _wrong(name, exercise.outputs, again, expected):
            return f"{RANDOM}.", True
    if shared:
        return "two calls returned the same array; make a new array in each call.", True
    return "", True


def likely_cause(names, problems, answers):
    """The mistake of the teacher's file that gives the student's numbers; "" if none does.

    Parameters
    ----------
    names : dict
        What the teacher's file defines: `mistakes()`, if there are any.
    problems : list
        As of `own_problems`.
    answers : list of (outputs or None, trouble or None)
        Of the student, one for each problem or more.
    """
    answered = [(given, outputs) for (_, given), (outputs, trouble) in zip(problems, answers)
                if trouble is None and not any(isinstance(x, Strange) for x in outputs)]
    for cause, mistake in names.get("mistakes", dict)().items():
        with np.errstate(all="ignore"):
            if all(_agree(mistake, given, outputs) for given, outputs in answered):
                return cause
    return ""


def _agree(mistake, given, outputs):
    """Whether the outputs are those of a mistake."""
    made = mistake(**given)
    made = made if isinstance(made, tuple) else (made,)
    if not all(np.isfinite(ours).all() for ours in made):     # a guard may have made it finite
        return True
    return len(made) == len(outputs) and all(
        same(np.asarray(found, float), ours, ours) for found, ours in zip(outputs, made))


def _wrong(name, keys, outputs, expected):
    """What is wrong with the outputs of a call, or ""."""
    if len(outputs) != len(keys):
        return f"it must return {', '.join(keys)}, but returned {len(outputs)} arrays."
    for key, found, right in zip(keys, outputs, expected):
        right = np.asarray(right)
        if trouble := no_array(found, right.dtype.type):
            return f"{key} must be {trouble.replace(', like the arguments', '')}."
        verdict = wrong_array(name, key, np.asarray(found, float), right,
                              CLOSE[np.float64], lambda _: ROUNDINGS * EPSILON[np.float64])
        if verdict is not None:
            return verdict.words
    return ""
