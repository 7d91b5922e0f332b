"""A student's functions in the place of those of minimal.py: the same model, whichever they are."""

import numpy as np
import pytest

from numformer import minimal
from numformer.teaching.assembled.model import assembled_model
from numformer.teaching.assembled.parts import ACTIVATIONS, CALLED_BY, PARTS
from numformer.teaching.assembled.workshop import SMALL, descent, loss_and_gradients
from numformer.teaching.exercise import all_exercises

SEEDS = range(10)                                     # among them, each activation is asked for


def solutions():
    """Our solution of each exercise that is a part: {name: function}."""
    found = {}
    for exercise in all_exercises():
        for seed in SEEDS if "# BEGIN VARIANT" in exercise.source else [0]:
            name = exercise.function(seed)
            if name in PARTS and name not in found and exercise.bug(seed) is None:
                names = {}
                exec(exercise.solved(seed), names)
                found[name] = names[name]
    return found


SOLUTIONS = solutions()


def trained_arrays(gpt, dtype=np.float64):
    rng = np.random.default_rng(3)
    p = {name: [rng.normal(w.ndim == 1, 0.5, w.shape).astype(dtype) for w in arrays]
         for name, arrays in gpt.initial_parameters(rng, 5).items()}
    loss, g = loss_and_gradients(gpt, p, rng.integers(5, size=(2, 5)))
    return [np.asarray(loss), *(x for name in sorted(p) for x in g[name])]


def assert_same(gpt, activation="gelu_tanh", **tolerance):
    expected = trained_arrays(assembled_model(activation=activation, **SMALL))
    for found, right in zip(trained_arrays(gpt), expected, strict=True):
        np.testing.assert_allclose(found, right, **{"rtol": 1e-10, "atol": 1e-13, **tolerance})


def activation_of(name):
    base = name.removesuffix("_backward")
    return base if base in ACTIVATIONS else "gelu_tanh"


def test_the_copy_is_minimal_and_minimal_stays_as_it_is(monkeypatch):
    for name, value in SMALL.items():
        monkeypatch.setattr(minimal, name, value)
    before = dict(vars(minimal))
    for found, right in zip(trained_arrays(assembled_model(SOLUTIONS_OF_GELU, **SMALL)),
                            trained_arrays(minimal), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-10, atol=1e-13)
    assert vars(minimal) == before


SOLUTIONS_OF_GELU = {name: function for name, function in SOLUTIONS.items()
                     if activation_of(name) == "gelu_tanh"}


@pytest.mark.parametrize("name", [name for name in PARTS if name not in ("adamw", "top_p")])
def test_each_function_takes_its_place_alone_and_is_called(name):
    calls = []

    def counted(*arguments):
        calls.append(arguments)
        return SOLUTIONS[name](*arguments)

    assert_same(assembled_model({name: counted}, activation_of(name), **SMALL),
                activation_of(name), atol=1e-12)
    assert calls


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_all_of_them_together(activation):
    functions = {name: function for name, function in SOLUTIONS.items()
                 if activation_of(name) in ("gelu_tanh", activation)
                 and (name.removesuffix("_backward") not in ACTIVATIONS
                      or activation_of(name) == activation)}
    assert_same(assembled_model(functions, activation, **SMALL), activation)


def test_what_is_inside_of_a_function_of_the_student_is_not_called():
    for name, caller in CALLED_BY.items():
        functions = {caller: SOLUTIONS[caller], name: None}
        assert_same(assembled_model(functions, **SMALL))


def test_a_step_of_adamw_is_that_of_minimal():
    ours, theirs = assembled_model(**SMALL), assembled_model({"adamw": SOLUTIONS["adamw"]}, **SMALL)
    found = []
    for gpt in (ours, theirs):
        p = gpt.initial_parameters(np.random.default_rng(0), 5)
        batches = [np.random.default_rng(n).integers(5, size=(2, 5)) for n in range(3)]
        losses = list(descent(gpt, p, batches, 3, 0.1))
        found.append([*losses, *(w for name in p for w in p[name])])
        assert {w.dtype for name in p for w in p[name]} == {np.dtype(np.float32)}
    for mine, right in zip(*found, strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-3, atol=1e-4)
    assert losses[0] != losses[1] != losses[2]


def test_top_p_decides_what_a_sample_is_chosen_from():
    def written(functions):
        gpt = assembled_model(functions, **SMALL)
        p = gpt.initial_parameters(np.random.default_rng(0), 5)
        return gpt.generate(p, [0], 20, np.random.default_rng(0))

    assert written({"top_p": SOLUTIONS["top_p"]}) == written({})
    likeliest = written({"top_p": lambda p, limit: np.float64(p == p.max())})
    assert likeliest != written({}) and len(set(likeliest[-8:])) < 5


def test_outputs_stay_in_float32():
    """The solution of cross_entropy_backward returns float64: each step would take twice as long.
    """
    gpt = assembled_model(SOLUTIONS_OF_GELU, **SMALL)
    assert {x.dtype for x in trained_arrays(gpt, np.float32)} == {np.dtype(np.float32)}


def test_softmax_gets_finite_scores_also_where_minimal_masks():
    def softmax(x):
        assert np.isfinite(x).all()
        return SOLUTIONS["softmax"](x)

    assert_same(assembled_model({"softmax": softmax}, **SMALL))
