"""The checkers are checked: gradcheck finds every planted bug and every likely mistake.

That `check` names each likely mistake: tests/teaching/test_check.py.
"""

import copy
import dataclasses
import types
from inspect import signature, unwrap

import numpy as np
import pytest

from marks import every
import planted_bugs
from numformer import check, layers, models
from numformer import functional as F
from numformer.specifications import MISTAKES, PAIRS, SPECIFICATIONS
from numformer.teaching.own_names import own_names, renamed
from numformer.verify import LAYER_BOUND, MODEL_BOUND, gradcheck
from numformer.verify.registry import LAYERS, LOSSES, MODELS
from numformer.verify.tensors import resolved
from patching import patched


def planted_in(name, old, new):
    """The function F.name with a bug; for "name, part" the bug is in `part`, which it calls."""
    name, _, part = name.partition(", ")
    function = unwrap(getattr(F, name))
    if not part:
        return patched(function, old, new)
    names = {**function.__globals__, part: patched(function.__globals__[part], old, new)}
    return types.FunctionType(function.__code__, names, name, function.__defaults__)


def bug_name(bug):
    return f"{bug[0]}: {bug[2]}"[:80].replace("\n", " ")


def test_there_are_enough_bugs():
    assert len(planted_bugs.FUNCTIONS) + len(planted_bugs.LAYERS) >= 60
    assert sum(map(len, MISTAKES.values())) >= 300


def with_gradient(case, gradient):
    """A case of a function, with a gradient `(dy, *arguments, **options)`."""
    def forward(*arguments, **options):
        given = copy.deepcopy((arguments, options))           # a random generator is used up
        return case.function(*arguments, **options)[0], given

    def backward(dy, given):
        arguments, options = copy.deepcopy(given)
        return gradient(dy, *arguments, **options)

    return dataclasses.replace(case, function=forward, gradient=backward)


def found(case, gradient):
    case = with_gradient(case, gradient)
    return not gradcheck(case, case.inputs(), case.options, condition=case.condition).ok


def accepts(mistake, case):
    try:
        signature(mistake).bind(None, *case.before, *case.shapes, *case.after,
                                **resolved(case.options))
    except TypeError:                                         # it knows not all options
        return False
    return True


@pytest.mark.parametrize("name", every(8, MISTAKES))
def test_every_likely_mistake_is_found(name):
    specification = SPECIFICATIONS[name.removesuffix("_backward")]
    case = specification.cases[0]

    def right(dy, *arguments, **options):
        return specification.gradient(dy, case.function(*arguments, **options)[1])

    assert not found(case, right)
    for cause, mistake in specification.mistakes:
        assert any(found(case, mistake) for case in specification.cases
                   if accepts(mistake, case)), cause


@pytest.mark.parametrize("seed", [0, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("bug", every(6, map(pytest.param, planted_bugs.FUNCTIONS)), ids=bug_name)
def test_a_bug_in_a_function_is_found_and_its_cause_named(bug, seed):
    name, old, new, *causes = bug
    gradient, name = planted_in(name, old, new), name.split(",")[0]
    pairs = [dataclasses.replace(pair, gradient=gradient) for pair in PAIRS
             if pair.gradient is getattr(F, name)]
    reports = (gradcheck(pair, pair.inputs(), pair.options, condition=pair.condition)
               for pair in pairs)
    assert any(not report.ok for report in reports)
    for cause in causes:
        verdict = check(name, gradient, seed)
        text = " ".join(str(verdict).split())                     # lines are wrapped
        specification = SPECIFICATIONS[name.removesuffix("_backward")]
        own = renamed(cause, own_names(gradient, specification, True))
        assert not verdict and cause in verdict.cause and own in text, text


def has_part(layer, kind):
    """Whether a part is of a class; a Stack or an InputEmbedding is an attribute of one."""
    return any(isinstance(each, kind) for _, part in layer.named_layers()
               for each in (part, getattr(part, "blocks", None), getattr(part, "input", None)))


def gradients(case):
    """All gradients of a case, as lists; or the exception."""
    layer, inputs = case.layer(), case.inputs()
    for _, parameter in layer.named_parameters():
        parameter.grad[...] = 1                                   # to which a backward adds
    try:
        y, saved = layer.forward(*inputs, **case.options())
        dy = np.cos(1.0 + np.arange(np.size(y))).reshape(np.shape(y))
        found = layer.backward(dy if np.shape(y) else dy[()], saved)
    except Exception as error:
        return repr(error)
    found = [*(found if isinstance(found, tuple) else (found,)),
             *(parameter.grad for _, parameter in layer.named_parameters())]
    return [None if each is None else each.tolist() for each in found]


def class_and_method(name):
    owner, method = name.split(".")
    return next(getattr(room, owner) for room in (layers, models, models.transformer)
                if hasattr(room, owner)), method


@pytest.mark.parametrize("name, old, new", planted_bugs.LAYERS, ids=lambda text: text[:30])
def test_every_bug_can_be_planted(name, old, new):
    kind, method = class_and_method(name)
    assert callable(patched(getattr(kind, method), old, new))


OF_LOSSES = "loss_backward", "states_backward"        # endings of methods that only losses call
# One bug of each third page in every run; the others take two minutes
SAMPLE = [page.LAYERS[0] for page in planted_bugs.PAGES[1::3]]


@pytest.mark.parametrize("bug", [
    bug if bug in SAMPLE else pytest.param(bug, marks=pytest.mark.slow)
    for bug in planted_bugs.LAYERS], ids=bug_name)
def test_a_bug_in_a_layer_is_found(bug, monkeypatch):
    name, old, new = bug
    kind, method = class_and_method(name)
    cases = [case for case in LAYERS + MODELS if has_part(case.layer(), kind)]
    if method.endswith(OF_LOSSES):
        cases = [LOSSES[MODELS.index(case)] for case in cases]
    right = [gradients(case) for case in cases]
    monkeypatch.setattr(kind, method, patched(getattr(kind, method), old, new))
    cases = [case for case, before in zip(cases, right) if gradients(case) != before]
    reports = (gradcheck(case.layer(), case.inputs(), case.options,
                         LAYER_BOUND if case in LAYERS else MODEL_BOUND) for case in cases)
    assert any(not report.ok for report in reports)
