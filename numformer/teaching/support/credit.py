"""Partial credit: what a function that is wrong somewhere still gets right, output by output."""

import numpy as np

from numformer.specifications import find_problem
from numformer.specifications.edges import EDGES as OF_EVERY_FUNCTION
from numformer.teaching.check import (
    instances_of, offered_levels, outputs_of, same_buffer, with_other_numbers)
from numformer.teaching.apart.messages import STOPPED, Trouble
from numformer.teaching.calls import Student, student_of
from numformer.teaching.comparison import strange_output, wrong_output
from numformer.teaching.signatures import promises

# of the points of each output
SHAPE, PLAIN, SPECIAL, EDGES = 0.1, 0.6, 0.2, 0.1
RULE = ("Of the points of each output, 1/10 is for its shape and 6/10 for its numbers on plain "
        "random problems. Once these are right, 2/10 are for what this function must also do: "
        "options, such as an ignored target, and special cases, such as scores near 1000. 1/10 is "
        "for the edges of every function: axes of size 1, large and small numbers, views, float32, "
        "arguments left unchanged, a new array in each call; 3/10 if nothing is special.")


def credit(exercise, function, name, seed):
    """The points of a function that is wrong, by output.

    Parameters
    ----------
    exercise : Exercise
    function : callable or Student
        The student's.
    name : str
        Of the function that is graded.
    seed : int
        Of the assignment.

    Returns
    -------
    dict of str to tuple of float
        For each output, (points, highest points); empty if the exercise is all or nothing.
    """
    if exercise.parts == {}:
        return {}
    name, problem, backward = find_problem(name)
    offered = offered_levels(problem, backward)
    shares, edges, special, right_shape, right_numbers = None, [], [], {}, {}
    watched = _Watched(student_of(function))
    for level, instances in instances_of(problem, offered, seed):
        if not _counts(exercise, watched.signature, level, offered[level], instances[0], backward):
            continue
        found = [_right(name, watched, instance, backward) for instance in instances]
        if shares is None:
            keys = list(found[0])
            shares = exercise.parts or dict.fromkeys(keys, exercise.points / len(keys))
            right_shape = {key: all(each[key][0] for each in found) for key in keys}
            right_numbers = {key: all(each[key][1] for each in found) for key in keys}
            edges += [dict.fromkeys(keys, ok) for ok in
                      _sound(name, watched, instances[0], backward)]
        else:
            group = edges if level in OF_EVERY_FUNCTION else special
            group.append({key: all(each[key][1] for each in found) for key in keys})
    points = {}
    for key, of in shares.items():
        fraction = SHAPE * right_shape[key]
        if right_numbers[key]:
            fraction += (PLAIN + SPECIAL * _share(special or edges, key)
                         + EDGES * _share(edges, key))
        points[key] = round(of * fraction, 4), of
    return points


def wrong_only_at(exercise, level, row):
    """Whether a row of `grade` has the most points of a function that is wrong at this level.

    The feedback names the first level that is wrong, and each further one costs points.
    """
    special = [each for each in exercise.levels or () if each not in (
        "plain", *OF_EVERY_FUNCTION)]
    if level not in special or f"Level of this problem: {level};" not in row["feedback"]:
        return False
    fraction = SHAPE + PLAIN + SPECIAL * (1 - 1 / len(special)) + EDGES
    return row["points"] >= round(exercise.points * fraction, 2)


def _share(passed, key):
    """The fraction of levels that an output passed."""
    return float(np.mean([each[key] for each in passed]))


class _Watched(Student):
    """A student that is not asked again once a limit has stopped a call."""

    def __init__(self, student):
        super().__init__(student.fn, student.limits, signature=student.signature)
        self.student, self.stopped = student, False

    def answers(self, calls):
        if self.stopped:
            return [(None, Trouble("it was stopped before", STOPPED))] * len(calls), False
        answers, shared = self.student.answers(calls)
        self.stopped = any(trouble and trouble.kind == STOPPED for _, trouble in answers)
        return answers, shared


def _counts(exercise, signature, level, kind, instance, backward):
    """Whether a level counts: as in `check`."""
    named = level in (exercise.levels or ())
    return ((not exercise.levels or named) and (kind.required or named)
            and promises(signature, instance, backward, named))


def _right(name, student, instance, backward):
    """output -> (whether its shape is right, whether its numbers are)."""
    expected = instance.expected(backward)
    outputs = outputs_of(student, instance, backward)[0] or ()
    right = dict.fromkeys(expected, (False, False))
    for (key, reference), found in zip(expected.items(), outputs):
        alone = {key: reference}
        if strange_output(name, (found,), alone, instance) is None:
            right[key] = (np.shape(found) == np.shape(reference),
                          wrong_output(name, (found,), alone, instance) is None)
    return right


def _sound(name, student, instance, backward):
    """(whether no argument is written into, whether each call makes new arrays)."""
    outputs, trouble = outputs_of(student, instance, backward)
    if outputs is None:
        return False, False
    if trouble:                          # it writes into an argument: one fault, not two
        return False, True
    other = with_other_numbers(instance)
    return True, same_buffer(name, student, instance, other, backward)[0] is None
