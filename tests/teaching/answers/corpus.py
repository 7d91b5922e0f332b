"""The corpora of answers on which `numformer.check` is examined: RIGHT, WRONG and EDGES.

They are written without a look at the checker's list of known mistakes. An answer registers itself:

    @right("softmax_backward", "explicit Jacobian")          name, and the style in a few words
    @wrong("softmax_backward", "the sum is missing")         name, and what is truly wrong
    @edge("softmax", "the global maximum is subtracted", "rows far apart", case)

An edge mistake is right on generic problems; its `case()` makes (arguments by name, options) at
which it is wrong, or (arguments, options, dy). `error(answer, *case)` compares with the reference.
"""

import inspect
from copy import deepcopy
from dataclasses import dataclass

import numpy as np

from numformer.specifications import find_problem

RIGHT, WRONG, EDGES = [], [], []


@dataclass(frozen=True)
class Answer:
    """A function that stands for `name`; `note` is its style, or the true cause of its error.

    `kind` and `case` are an edge's: its kind, and a maker of arguments at which it is wrong.
    """

    name: str
    note: str
    fn: object
    kind: str = ""
    case: object = None

    @property
    def backward(self):
        return self.name.endswith("_backward")

    @property
    def problem(self):
        return find_problem(self.name)[1]

    def __str__(self):
        return f"{self.name}: {self.note}"


def right(name, style):
    """Register a right answer."""
    return _register(RIGHT, name, style)


def wrong(name, cause):
    """Register a wrong answer with the true cause in plain words."""
    return _register(WRONG, name, cause)


def edge(name, cause, kind, case):
    """Register an answer that is wrong only at an edge: at what `case()` makes."""
    return _register(EDGES, name, cause, kind, case)


def _register(corpus, name, note, *more):
    def keep(fn):
        corpus.append(Answer(name, note, fn, *more))
        return fn
    return keep


def takes_saved(answer):
    """Whether the second argument is named `saved`."""
    return list(inspect.signature(answer.fn).parameters)[1:2] == ["saved"]


def fits(answer, options):
    """Whether the signature of an answer promises these options."""
    return takes_saved(answer) or set(options) <= set(inspect.signature(answer.fn).parameters)


def outputs(answer, arguments, options, dy=None):
    """(outputs of the answer, those of the reference): two tuples; dy is random by default.

    A backward that takes `saved` is called twice: what it returns at last must still be right.
    """
    given = deepcopy(arguments)
    y, saved = answer.problem.function(*arguments.values(), **options)
    if not answer.backward:
        found = answer.fn(*given.values(), **options)
        return (found[0] if isinstance(found, tuple) else found,), (y,)
    if dy is None:
        dy = np.random.default_rng(7).standard_normal(np.shape(y)) if np.shape(y) else 1.7
    dy = dy.astype(y.dtype) if np.shape(y) else dy
    expected = answer.problem.gradient(dy, saved)
    if takes_saved(answer):
        answer.fn(dy, saved)
        found = answer.fn(dy, saved)
    else:
        found = answer.fn(dy, *given.values(), **options)
    return tuple(tuple(x) if isinstance(x, (tuple, list)) else (x,) for x in (found, expected))


def distance(found, expected):
    """The largest difference relative to the largest number; inf if it is no such array."""
    found, expected = np.asarray(found), np.asarray(expected)
    if found.dtype == object or expected.dtype == object:             # None for an absent gradient
        return 0.0 if found.dtype == expected.dtype else np.inf
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return np.inf
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    with np.errstate(all="ignore"):
        error = np.where(same, 0, np.abs(found - expected))
    finite = np.where(np.isfinite(expected), np.abs(expected), 0)
    return np.nan_to_num(error, nan=np.inf).max(initial=0) / max(finite.max(initial=0), 1e-300)


def error(answer, arguments, options, dy=None):
    """The largest distance of an output from the reference; inf if the answer raises."""
    try:
        with np.errstate(all="ignore"):
            found, expected = outputs(answer, arguments, options, dy)
    except Exception:
        return np.inf
    if len(found) != len(expected):
        return np.inf
    return max(distance(f, e) for f, e in zip(found, expected))
