"""What a layer computes is read from its code: every variable that it saves is in the graph."""

import ast
import sys

import numpy as np
import pytest

from numformer import backend, layers
from numformer.analysis import computation
from numformer.backend import dispatch
from numformer.layers import FeedForward, LayerNorm, Linear, MultiHeadAttention
from numformer.parameter import Layer
from numformer.verify.registry import ESTIMATORS, LAYERS

ONE_OF_EACH = {type(case.layer()).__name__: case for case in reversed(LAYERS + ESTIMATORS)}


def bare(variable):
    return variable.name.rstrip("′")


@pytest.mark.parametrize("case", LAYERS + ESTIMATORS, ids=lambda case: case.name)
def test_every_layer_has_a_graph_with_all_that_it_saves(case):
    layer, options = case.layer(), case.options()
    forward, backward = computation(layer, *case.inputs(), backward=True, **options)
    names = {bare(variable) for variable in forward.variables}
    packed = {node.id for node in ast.walk(ast.parse(forward.saved or "()"))
              if isinstance(node, ast.Name)} - {"tuple", "None"}
    assert packed <= names
    for graph in (forward, backward):
        made = [index for step in graph.steps for index in step.makes]
        assert len(made) == len(set(made)), "every variable is made once"
        for step in graph.steps:
            assert all(index < min(step.makes, default=len(graph.variables))
                       for index in step.reads), step
    assert any(variable.role == "input" for variable in backward.variables)


def test_every_public_layer_with_a_backward_is_among_them():
    public = {name for name in layers.__all__ if isinstance(getattr(layers, name), type)
              and "forward" in dir(getattr(layers, name))}
    assert public <= set(ONE_OF_EACH)


def test_attention_names_every_array_that_it_saves():
    layer = MultiHeadAttention(8, 2, np.random.default_rng(0))
    x = np.ones((1, 5, 8), np.float32)
    forward, backward = computation(layer, x, backward=True)
    assert (forward.function, forward.page) == ("forward", "layers/attention/multi_head.py")
    kept = {variable.name: variable.content for variable in forward.variables
            if variable.role == "saved"}
    assert list(kept) == ["pattern", "itself", "at_once", "q", "k", "v", "saved_heads",
                          "saved_attention", "saved_output"]
    assert kept["q"] == kept["k"] == kept["v"] == "(1, 2, 5, 4)"
    assert forward.saved == ("(itself, at_once, saved_heads, saved_attention, saved_output, "
                             "(q, k, v, pattern))")
    unpacked = backward.steps[0]
    assert unpacked.text == "saved"
    assert [backward.variables[index].name for index in unpacked.makes] == [
        "itself", "at_once", "saved_heads", "saved_attention", "saved_output", "_"]


def test_statements_that_did_not_run_are_left_out_and_shapes_are_those_of_the_run():
    layer, x = Linear(3, 4, np.random.default_rng(0), bias=False), np.ones((2, 5, 3), np.float32)
    forward, _ = computation(layer, x)
    assert [step.text for step in forward.steps] == [
        "x.reshape(-1, x.shape[-1])", "vectors @ weight",
        "y.reshape(*x.shape[:-1], weight.shape[1])"]
    assert [(variable.name, variable.content) for variable in forward.variables][2:] == [
        ("bias", "None"), ("vectors", "(10, 3)"), ("y", "(10, 4)"),
        ("y′", "(..., F) = (2, 5, 4)")]
    assert forward.variables[-1].role == "output"


def test_a_run_changes_neither_the_chosen_version_nor_the_trace():
    layer, x = FeedForward(3, 4, "gelu", np.random.default_rng(0)), np.ones((2, 3), np.float32)
    before, trace = dispatch._version, sys.gettrace()
    computation(layer, x, backward=True)
    with pytest.raises(ValueError, match="C=3"):
        computation(layer, x[:, :2])
    assert (dispatch._version, sys.gettrace()) == (before, trace)
    assert backend.compiled_versions()["feed_forward"]


@pytest.mark.parametrize("layer", ["attention", np.ones(3), Layer()])
def test_what_is_no_layer_with_a_backward_is_refused(layer):
    with pytest.raises(TypeError, match="no layer with a forward and a backward"):
        computation(layer, np.ones((2, 3)))


def test_a_layer_norm_saves_its_mean_and_not_the_centred_vectors():
    forward, backward = computation(LayerNorm(3), np.ones((2, 3), np.float32), backward=True)
    roles = {variable.name: variable.role for variable in forward.variables}
    assert roles["rstd"] == roles["mean"] == "saved" and roles["centred"] == "value"
    assert backward.function == "layer_norm_backward"
