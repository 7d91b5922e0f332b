"""NumPy itself compares, whatever a student's code has set its names to; in one process, too."""

import builtins
import os
import sys
from contextlib import contextmanager

import numpy as np
import pytest

from forging import BEGIN, PATCHES, ROWS, ZEROS
from numformer.teaching import check
from numformer.teaching.apart.names import MODULES, our_names, their_names

SEEN = ["np.abs is zero", "np.max is huge", "all functions of NumPy give zeros",
        "exp is one, so the reference is uniform", "isnan, isinf and allclose agree",
        "builtins agree", "what methods of arrays use agrees", "the precision is huge"]
FORK = pytest.mark.skipif(not hasattr(os, "fork") or sys.platform == "darwin",
                          reason="no fork that is safe")


@contextmanager
def names_again():
    """What is changed inside is as before afterwards: tests need it themselves."""
    kept = [(vars(module), dict(vars(module))) for module in (*MODULES, np.testing)]
    limits = [(vars(np.finfo(kind)), dict(vars(np.finfo(kind)))) for kind in (float, np.float32)]
    try:
        yield
    finally:
        for names, before in kept:
            for name in before:
                names[name] = before[name]
        for names, before in limits:                  # NumPy keeps one object for each precision
            names.clear()
            names.update(before)


def forged(name):
    """A softmax that makes the changes of a file in its first call."""
    source = BEGIN + PATCHES[name].removesuffix(ROWS)
    answers = {}
    exec(BEGIN + (ROWS if name.startswith("exp") else ZEROS), answers)
    changed = []

    def softmax(x):
        if not changed:
            changed.append(1)
            exec(source, {})
        return answers["softmax"](x)
    return softmax


@pytest.mark.parametrize("process", [False, pytest.param(True, marks=FORK)])
@pytest.mark.parametrize("name", SEEN)
def test_a_function_that_changes_numpy_is_wrong(name, process):
    softmax = forged(name)
    with names_again():
        verdict = check("softmax", softmax, seed=0, process=process)
    assert not verdict and verdict.apart is process and "is wrong" in verdict.text
    assert np.finfo(float).eps == 2.0 ** -52 and np.finfo(float).tiny == 2.0 ** -1022


@pytest.mark.parametrize("process", [False, pytest.param(True, marks=FORK)])
@pytest.mark.parametrize("name", SEEN[:4])
def test_numpy_that_was_changed_before_compares_as_it_was(name, process):
    softmax = forged(name)
    with names_again():
        softmax(np.ones((2, 3)))
        verdict = check("softmax", softmax, seed=0, process=process)
    assert not verdict and "is wrong" in verdict.text


@FORK
@pytest.mark.parametrize("name", PATCHES)
def test_a_process_of_its_own_can_change_anything(name):
    assert not check("softmax", forged(name), seed=0, process=True)


def test_a_right_function_sees_its_own_numpy():
    exp, calls = np.exp, []

    def counted(x):
        calls.append(x)
        return exp(x)

    def softmax(x):
        calls.append(None)
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    with names_again():
        np.exp = counted
        verdict = check("softmax", softmax, seed=0, process=False)
        kept = np.exp is counted
    assert verdict and not verdict.apart and kept
    # once in each of its own calls, and not in those of the reference
    assert [x is None for x in calls] == [True, False] * (len(calls) // 2)


def test_names_go_to_and_fro():
    first, second, ours = (lambda x: 1), (lambda x: 2), np.abs
    with names_again():
        np.abs = first
        del builtins.abs
        with our_names():
            assert np.abs is ours and abs(-1) == 1
            with their_names():
                assert np.abs is first and not hasattr(builtins, "abs")
                np.abs = second
            assert np.abs is ours
        assert np.abs is second and not hasattr(builtins, "abs")
        with their_names():                           # outside of ours: nothing to change
            assert np.abs is second
