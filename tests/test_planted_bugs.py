"""The testers tested: every planted bug is found by the gradient check, and `check` names the cause of those that it knows."""

import dataclasses
import inspect
import textwrap
import types

import pytest

import planted_bugs
from numformer import check, layers, models
from numformer import functional as F
from numformer.verify import LAYER, MODEL, gradcheck
from numformer.verify.registry import LAYERS, MODELS, PAIRS


def patched(function, old, new, **more):
    """The function with a change to its text; its globals are those of its module."""
    function = inspect.unwrap(function)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(old) == 1, f"{old!r} stands {source.count(old)} times in {function.__name__}"
    names = {**function.__globals__, **more}
    exec(source.replace(old, new), names)
    return names[function.__name__]


def planted_in(name, old, new):
    """The function F.name with a bug; "name, part" where the bug is in a function that it calls."""
    name, _, part = name.partition(", ")
    function = getattr(F, name)
    if not part:
        return patched(function, old, new)
    names = {**function.__globals__, part: patched(function.__globals__[part], old, new)}
    return types.FunctionType(function.__code__, names, name, function.__defaults__)


def bug_name(bug):
    return f"{bug[0]}: {bug[2]}"[:80].replace("\n", " ")


def test_there_are_enough():
    assert len(planted_bugs.FUNCTIONS) + len(planted_bugs.LAYERS) >= 60
    assert sum(cause is not None for *_, cause in planted_bugs.FUNCTIONS) >= 40


@pytest.mark.parametrize("bug", planted_bugs.FUNCTIONS, ids=bug_name)
def test_a_bug_in_a_function_is_found(bug):
    name, old, new, cause = bug
    gradient, name = planted_in(name, old, new), name.split(",")[0]
    pairs = [dataclasses.replace(pair, gradient=gradient) for pair in PAIRS if pair.gradient is getattr(F, name)]
    assert any(not gradcheck(pair, pair.inputs(), pair.options, LAYER, pair.condition).ok for pair in pairs)
    if cause is not None:
        for seed in (0, 1000):
            verdict = check(name, gradient, seed)
            assert not verdict and cause in verdict.cause and cause in str(verdict), str(verdict)


@pytest.mark.parametrize("bug", planted_bugs.LAYERS, ids=bug_name)
def test_a_bug_in_a_layer_is_found(bug, monkeypatch):
    name, old, new = bug
    kind = getattr(layers if hasattr(layers, name.split(".")[0]) else models, name.split(".")[0])
    monkeypatch.setattr(kind, "backward", patched(kind.backward, old, new))
    cases = [case for case in LAYERS + MODELS if any(isinstance(part, kind) for _, part in case.layer().named_layers())]
    assert any(not gradcheck(case.layer(), case.inputs(), case.options, MODEL if case in MODELS else LAYER).ok for case in cases)
