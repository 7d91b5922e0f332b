"""The names of NumPy and Python as they were before any student's code ran.

In a notebook a student's function runs in the process that judges it, and may have set `np.abs` to
something else. While the judge works, these names are what they were when this page was imported;
while the function runs, they are the student's. Among them are those that methods such as `x.any()`
use. What else a function can change in its own process, such as this package itself or NumPy's
objects, is not undone.
"""

import builtins
import math
from contextlib import contextmanager
from importlib import import_module
from operator import is_, itemgetter

import numpy as np
import numpy.linalg

CORE = "numpy._core" if hasattr(np, "_core") else "numpy.core"        # since NumPy 2, and before
INNER = "_methods", "fromnumeric"                     # through which x.any() and np.max go
MODULES = (builtins, math, np, np.linalg, *(import_module(f"{CORE}.{name}") for name in INNER))
GONE = object()
_all, _map = all, map                                 # a student may have set these, too
# (the names as they are, as they were, what gets the values of all, these values)
_OURS = [(vars(module), kept, itemgetter(*kept), tuple(kept.values()))
         for module in MODULES for kept in [dict(vars(module))]]
_theirs = []                      # for each `our_names` around: what the student has set instead


@contextmanager
def our_names():
    """The names as they were; afterwards they are the student's again."""
    _theirs.append(_set_ours())
    try:
        yield
    finally:
        _set(_theirs.pop())


@contextmanager
def their_names():
    """Inside of `our_names`, the student's names, for a call of their function."""
    if not _theirs:
        yield
        return
    _set(_theirs[-1])
    try:
        yield
    finally:
        _theirs[-1] = _set_ours()


def _set_ours():
    """Set the names to ours; returns what was there instead: a list for `_set`."""
    changed = [(names, key, ours, names.get(key, GONE)) for names, kept, values, as_kept in _OURS
               if not _are(names, values, as_kept)
               for key, ours in kept.items() if names.get(key, GONE) is not ours]
    _set([(names, key, ours) for names, key, ours, _ in changed])
    return [(names, key, theirs) for names, key, _, theirs in changed]


def _are(names, values, as_kept):
    """Whether all are as they were: the usual case, in a fourth of the time."""
    try:
        return _all(_map(is_, values(names), as_kept))
    except KeyError:
        return False


def _set(entries):
    for names, key, value in entries:
        if value is GONE:
            names.pop(key, None)
        else:
            names[key] = value
