"""Shape comments and shapes in docstrings are those of the arrays of a run."""

import inspect

import numpy as np
import pytest

import shape_comments
from marks import every
from numformer import backend
from numformer import functional as F
from numformer.specifications import PAIRS, PROBLEMS
from numformer.verify.registry import ESTIMATORS, LAYERS, LOSSES, MODELS
from numformer.verify.tensors import resolved
from shape_comments import Watch, fits, shapes_in

# What attention needs in addition to q, k and v, with R = 4 positions for 5, and K = 2
EXTRA = {"low_rank_attention": [(4, 5), (4, 5)], "relative_attention": [(5, 3), (5, 7)],
         "window_attention": [(4, 5, 5)]}


@pytest.fixture(autouse=True)
def in_numpy():
    with backend.using("numpy"):
        yield


def cotangents(y):
    """A random dy for the outputs of a function or a layer."""
    rng = np.random.default_rng(7)
    dys = tuple(np.asarray(rng.standard_normal(np.shape(part)))
                for part in (y if isinstance(y, tuple) else (y,)))
    return dys if isinstance(y, tuple) else dys[0] if np.shape(y) else 0.7


def compared(calls):
    """The faults of functions or layers: of each (forward, backward) with its arguments."""
    watch = Watch()
    for forward, backward, arguments, options in calls:
        with watch():
            y, saved = forward(*arguments, **options)
        dy = cotangents(y)
        with watch():
            backward(dy, saved)
    return sorted(watch.faults), watch.n_compared


@pytest.mark.slow
def test_functions_of_all_problems():
    calls = []
    for name, problem in PROBLEMS.items():
        for make in problem.levels.values():
            given, options = make(np.random.default_rng(3))
            calls.append((getattr(F, name), getattr(F, f"{name}_backward"), given.values(),
                          options))
    with np.errstate(all="ignore"):                  # of levels with numbers at their limits
        faults, n_compared = compared(calls)
    assert faults == [] and n_compared > 5000


def test_attention_whose_values_have_a_width_of_their_own():
    rng, calls = np.random.default_rng(0), []
    for name in dir(F):
        if hasattr(F, f"{name}_backward") and name != "additive_scores":
            function = getattr(F, name)
            parameters = inspect.signature(function).parameters
            if list(parameters)[:3] == ["q", "k", "v"]:
                shapes = [(2, 4, 6, 3), (2, 4, 5, 3), (2, 4, 5, 7), *EXTRA.get(name, [])]
                if name == "window_attention":       # as many queries as keys
                    shapes[0] = 2, 4, 5, 3
                more = [np.tile(np.arange(4), (6, 1))] if name == "sparse_attention" else []
                calls.append((function, getattr(F, f"{name}_backward"),
                              [*map(rng.standard_normal, shapes), *more], {}))
    faults, _ = compared(calls)
    assert faults == [] and len(calls) >= 6


@pytest.mark.parametrize("cases", every(4, [PAIRS, LAYERS + ESTIMATORS, MODELS, LOSSES]),
                         ids=["pairs", "layers", "models", "losses"])
def test_everything_that_is_registered(cases):
    calls = []
    for case in cases:
        layer = case.layer() if hasattr(case, "layer") else case
        options = resolved(case.options() if callable(case.options) else case.options)
        calls.append((layer.forward, layer.backward, case.inputs(), options))
    faults, n_compared = compared(calls)
    assert faults == [] and n_compared > 1000


def test_wrong_shapes_are_found(monkeypatch):
    monkeypatch.setattr(shape_comments, "ROOMS", (__file__,))
    monkeypatch.setattr(shape_comments, "PACKAGE", shape_comments.Path(__file__).parent)
    watch = Watch()
    with watch():
        documented(np.ones((2, 3, 4)), np.ones((4, 5)))
    found = [fault.partition(": ")[2] for fault in sorted(watch.faults)]
    assert [fault.split(",")[0] for fault in found] == [
        "h is said to be (B", "y is said to be (B", "y is said to have the shape of x"]


def documented(x, weight):
    """A function with two wrong comments and a wrong docstring.

    Parameters
    ----------
    x : ndarray, shape (B, T, C)
    weight : ndarray, shape (C, F)

    Returns
    -------
    y : ndarray, shape of `x`
    """
    h = x @ weight                                                    # (B, T, C)
    y = h + 1                                                         # (B, T, F)
    for _ in range(2):
        y = y[:, 1:]                                                  # (B, T - 1, F)
    return y


def test_shapes_are_read():
    assert shapes_in("(B, H, J, D), (B, J, D_V): of a tile") == [[["B", "H", "J", "D"]],
                                                                  [["B", "J", "D_V"]]]
    assert shapes_in("(T, S) or (B, T, S)") == [[["T", "S"], ["B", "T", "S"]]]
    assert fits(["...", "2 K + 1"], (7, 4, 5), {"K": 2}) == {"K": 2}
    assert fits(["B", "3F"], (2, 9), {"F": 3}) == {"B": 2, "F": 3}
    assert fits(["B", "B"], (2, 3), {}) is None and fits(["B"], (2, 3), {}) is None
