"""What a layer computes is read from its code: the mathematics is in the graph, the engine not."""

import re
import sys

import numpy as np
import pytest

from marks import every
from numformer import backend, layers
from numformer.analysis import computation
from numformer.analysis.structure.observed_call import arrays_in
from numformer.backend import dispatch
from numformer.layers import (
    Attention, DeformableAttention, FeedForward, LayerNorm, Linear, LowRankAttention,
    MultiHeadAttention, ScoreAttention, SelfAttention, SparseAttention, TiledAttention,
    WindowAttention)
from numformer.parameter import Layer
from numformer.verify.registry import ESTIMATORS, LAYERS

ONE_OF_EACH = {type(case.layer()).__name__: case for case in reversed(LAYERS + ESTIMATORS)}


# Of what chooses, checks and speeds up; no part of a formula
ENGINE = re.compile(r"dispatch\b|check|cache|at_once|in_one_pass|getattr|hasattr|isinstance|backend"
                    r"|_accumulate|self\b|pattern|seed|rng|same_as|None|workspace")
SOFTMAX_ATTENTION = (Attention, MultiHeadAttention, ScoreAttention, LowRankAttention,
                     SparseAttention, WindowAttention, DeformableAttention, TiledAttention)
ATTENTION = [case for case in LAYERS if isinstance(case.layer(), SOFTMAX_ATTENTION)]


def of_case(case, backward=False):
    return computation(case.layer(), *case.inputs(), backward=backward, **case.options())


@pytest.mark.parametrize("case", every(3, LAYERS + ESTIMATORS), ids=lambda case: case.name)
def test_every_layer_has_a_graph_of_its_mathematics(case):
    for graph in of_case(case, backward=True):
        made = [index for step in graph.steps for index in step.makes]
        assert len(made) == len(set(made)), "every variable is made once"
        names = [variable.name for variable in graph.variables]
        assert len(names) == len(set(names))
        for step in graph.steps:
            assert all(index < min(step.makes) for index in step.reads), step
            words = f"{step.text} {step.loop}"
            assert all(graph.variables[index].name in words for index in step.reads), step
            assert not ENGINE.search(step.text), step
        read = {index for step in graph.steps for index in (*step.reads, *step.makes)}
        assert read >= {index for index, variable in enumerate(graph.variables)
                        if variable.role in ("value", "output", "gradient")}
        assert all(variable.content[-1] in ")r" for variable in graph.variables)


@pytest.mark.parametrize("case", ATTENTION, ids=lambda case: case.name)
def test_attention_shows_scores_softmax_and_the_weighted_mean(case):
    graph, _ = of_case(case)
    steps = {step.name: step for step in graph.steps if step.name}
    scores, softmax, mean = (steps[name] for name in ("scores", "softmax", "weighted mean"))
    assert softmax.text.startswith("softmax(")
    order = [graph.steps.index(step) for step in (scores, softmax, mean)]
    assert order == sorted(order)
    reached = set(scores.makes)                       # from the scores to the mean
    for step in graph.steps[order[0] + 1:order[2] + 1]:
        if reached & set(step.reads):
            reached |= set(step.makes)
    assert set(softmax.makes) <= reached and set(mean.makes) <= reached
    for step in (scores, softmax, mean):
        assert all(graph.variables[index].content.startswith("(") for index in step.makes)


def test_there_is_a_case_of_each_kind_of_attention():
    assert {type(case.layer()) for case in ATTENTION} >= {*SOFTMAX_ATTENTION, SelfAttention}


@pytest.mark.parametrize("build", [
    lambda rng: MultiHeadAttention(8, 2, rng, bias=False),
    lambda rng: MultiHeadAttention(8, 2, rng, bias=False, tile=2)], ids=["plain", "in tiles"])
def test_a_faster_way_is_drawn_as_the_mathematics(build):
    """Projections in one call, and tiles: the same formulas."""
    graph, _ = computation(build(np.random.default_rng(0)), np.ones((1, 5, 8), np.float32))
    assert [step.text for step in graph.steps] == [
        "x W_query", "x W_key", "x W_value", "q kᵀ / √D", "softmax(scores)", "p v",
        "concat(o) W_output"]
    shapes = {variable.name: variable.content for variable in graph.variables}
    assert shapes["q"] == "(B, H, T, D) = (1, 2, 5, 4)"
    assert shapes["scores"] == shapes["p"] == "(B, H, T, S) = (1, 2, 5, 5)"
    assert shapes["y"] == "(B, T, d_output) = (1, 5, 8)"


def test_a_block_shows_norms_sublayers_and_sums():
    """And not that a sum and the norm that reads it are one function."""
    case = next(case for case in LAYERS if case.name == "pre-norm block")
    graph, _ = of_case(case)
    assert [step.text for step in graph.steps] == [
        "norm1(x)", "attention(n)", "x + b", "norm2(x′)", "feedforward(n′)", "x′ + b′"]
    assert [step.name.split(":")[0] for step in graph.steps] == [
        "LayerNorm", "Multi-head attention", "", "LayerNorm", "Feed-forward", ""]


def test_every_public_layer_with_a_backward_is_among_them():
    public = {name for name in layers.__all__ if isinstance(getattr(layers, name), type)
              and "forward" in dir(getattr(layers, name))}
    assert public <= set(ONE_OF_EACH)


def test_attention_names_every_array_that_it_keeps():
    layer = MultiHeadAttention(8, 2, np.random.default_rng(0))
    forward, backward = computation(layer, np.ones((1, 5, 8), np.float32), backward=True)
    assert (forward.function, forward.page) == ("forward", "layers/attention/multi_head.py")
    assert forward.saved == "(x, q, k, v, p, o)"      # o with its heads joined: W_output's input
    assert {variable.name for variable in forward.variables
            if variable.role == "saved"} == {"x", "q", "k", "v", "p", "o"}
    texts = {backward.variables[step.makes[0]].name: step.text for step in backward.steps}
    assert texts["do"] == "dy W_outputᵀ" and texts["dv"] == "pᵀ do"
    assert texts["dweights"] == "do vᵀ" and texts["dk"] == "dproductsᵀ q"
    assert texts["dx"] == "dx_query + dx_key + dx_value"
    assert backward.saved == "(q, k, v, p)"
    x = np.random.default_rng(1).standard_normal((1, 5, 8)).astype(np.float32)
    with backend.using("numpy"), backend.threads(1):
        _, saved = layer.forward(x)
    numbers = {np.sort(array, axis=None).tobytes() for array in arrays_in(saved)
               if array.dtype == np.float32 and array.shape != (8, 8)}
    assert len(numbers) == 6                          # the weights are kept, too


def loops(name, backward=False):
    """{variable: (formula, loop)} of what a layer computes in loops, forward or backward."""
    case = next(case for case in LAYERS if case.name == name)
    graph = of_case(case, backward)[backward]
    return {graph.variables[step.makes[0]].name: (step.text, step.loop) for step in graph.steps
            if step.loop}


def test_a_loop_over_time_is_one_step_with_what_it_hands_on():
    assert loops("rnn") == {
        "after": ("tanh(a[t] + state recurrent_weight)", "for each t, state ← after")}
    assert loops("rnn, first state, lengths") == loops("rnn")
    found = loops("lstm")
    assert [found[name][0] for name in ("c_after", "h_after", "after")] == [
        "f · c + i · g", "o · tanh_c", "[h_after, c_after]"]
    assert {loop for _, loop in found.values()} == {"for each t, state ← after"}
    assert loops("gru")["after"][0] == "z · state + (1 − z) · n"


def test_backpropagation_through_time_has_the_formulas_of_a_step():
    assert loops("rnn", backward=True) == {
        name: (text, "for each t, from the last on, dstate ← dstate′′") for name, text in (
            ("dstate′", "dstate + dstates[t]"), ("da", "dstate′ · (1 − after · after)"),
            ("dstate′′", "da recurrent_weightᵀ"))}
    gru = loops("gru", backward=True)
    assert gru["dz"][0] == "dstate′ · (state − n)" and gru["dbefore"][0] == "dstate′ · z"
    assert loops("lstm", backward=True)["dc"][0] == "dc_after′ · f"
    case = next(case for case in LAYERS if case.name == "lstm")
    saved = [variable.name for variable in of_case(case, True)[1].variables
             if variable.role == "saved"]
    assert saved == ["c", "gates", "g", "tanh_c"]


def test_experts_are_one_step_for_each_expert():
    assert loops("mixture of experts") == {
        "outputs": ("expert(rows)", "for each expert, rows of split(sent, ends)")}
    assert loops("mixture of experts", backward=True) == {
        "drows": ("expert′(rows)", "for each expert, rows of split(doutputs, ends)")}


def test_layers_in_a_loop_are_all_drawn():
    assert not loops("encoder") and not loops("pre-norm block")


def test_statements_that_did_not_run_are_left_out_and_shapes_are_those_of_the_run():
    layer, x = Linear(3, 4, np.random.default_rng(0), bias=False), np.ones((2, 5, 3), np.float32)
    forward, backward = computation(layer, x, backward=True)
    assert [step.text for step in forward.steps] == ["x weight"]
    assert [(variable.name, variable.content) for variable in forward.variables] == [
        ("x", "(2, 5, 3)"), ("weight", "(3, 4)"), ("y", "(..., F) = (2, 5, 4)")]
    assert forward.variables[-1].role == "output"
    assert {step.text for step in backward.steps} == {"dy weightᵀ", "xᵀ dy"}


def test_numbers_are_written_as_they_are_computed_and_guards_left_out():
    """Of a scale, of an epsilon, and of what keeps overflow and NaN away."""
    scaled, _ = computation(MultiHeadAttention(8, 2, np.random.default_rng(0), scale=0.3),
                            np.ones((1, 5, 8), np.float32))
    assert "0.3 · q kᵀ" in [step.text for step in scaled.steps]
    norm, _ = computation(LayerNorm(3), np.ones((2, 3), np.float32))
    assert [step.text for step in norm.steps] == [
        "mean(x)", "x − mean", "mean(centred · centred)", "1 / √(variance + epsilon)",
        "weight · centred · rstd + bias"]
    gated, _ = computation(FeedForward(3, 4, "silu", np.random.default_rng(0)),
                           np.random.default_rng(1).standard_normal((2, 3)).astype(np.float32))
    assert "h · gate" in [step.text for step in gated.steps]


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
