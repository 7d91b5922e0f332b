"""Which weight is which: by shape, name and order, and what is refused."""

import numpy as np
import pytest

from numformer.layers import LSTM, FeedForward, LayerNorm, Linear, MultiHeadAttention, SwiGLU
from numformer.models import Decoder, DecoderConfig
from numformer.testing.layers.ours import OurLayer
from numformer.testing.layers.pairs import BY_ORDER, Pairing, orders, table
from numformer.testing.layers.words import score


class Weights:
    """What a module tells a pairing: arrays by name."""

    name = "Theirs"

    def __init__(self, transposes=False, **shapes):
        self.transposes = transposes
        rng = np.random.default_rng(0)
        self.weights = {name.replace("__", "."): rng.standard_normal(shape)
                        for name, shape in shapes.items()}

    def axes(self, name):
        return None


def pairs_of(theirs, layer, names=None):
    pairing = Pairing(theirs, OurLayer(layer), names)
    return pairing, table(pairing.pairs)


def test_weights_are_paired_by_name_where_shapes_are_equal():
    sizes = dict(q_proj__weight=(4, 4), k_proj__weight=(4, 4), v_proj__weight=(4, 4),
                 o_proj__weight=(4, 4))
    pairing, lines = pairs_of(Weights(**dict(reversed(sizes.items()))),
                              MultiHeadAttention(4, 2, None, bias=False))
    assert sorted(lines) == ["k_proj.weight = key.weight", "o_proj.weight = output.weight",
                             "q_proj.weight = query.weight", "v_proj.weight = value.weight"]


def test_square_weights_have_the_order_of_axes_of_the_others():
    theirs = Weights(gate=(6, 4), up=(6, 4), down=(4, 6))
    _, lines = pairs_of(theirs, SwiGLU(4, 6, None, bias=False))
    assert lines == ["gate = gate.weight transposed", "up = hidden.weight transposed",
                     "down = output.weight transposed"]
    _, lines = pairs_of(Weights(True, weight=(4, 4)), Linear(4, 4, None, bias=False))
    assert lines == ["weight = weight transposed"]


def test_order_decides_where_names_do_not_and_says_so():
    pairing, lines = pairs_of(Weights(a=(4,), b2=(4,)), LayerNorm(4), {"a": "weight"})
    assert lines == ["a = weight (names)", "b2 = bias"]
    pairing, _ = pairs_of(Weights(one=(4,), two=(4,)), LayerNorm(4))
    assert [(pair.theirs, pair.ours, pair.how) for pair in pairing.pairs] == [
        ("one", "weight", BY_ORDER), ("two", "bias", BY_ORDER)]


@pytest.mark.parametrize("shape, part", [((12, 4), "transposed"), ((4, 12), "")])
def test_a_joint_weight_of_queries_keys_and_values_is_cut(shape, part):
    theirs = Weights(qkv=shape, qkv_bias=(12,), out=(4, 4), out_bias=(4,))
    pairing, lines = pairs_of(theirs, MultiHeadAttention(4, 2, None))
    assert lines[:3] == [f"qkv[{k}:{k + 4}] = {name}.weight {part}".strip()
                         for k, name in ((0, "query"), (4, "key"), (8, "value"))]
    arrays = pairing.arrays(theirs.weights)
    joint = theirs.weights["qkv"].T if part else theirs.weights["qkv"]
    assert (arrays["key.weight"] == joint[:, 4:8]).all()
    assert (arrays["value.bias"] == theirs.weights["qkv_bias"][8:]).all()


def test_grouped_heads_are_cut_by_their_widths():
    theirs = Weights(Wqkv=(8, 16), out=(8, 8))
    pairing, _ = pairs_of(theirs, MultiHeadAttention(8, 4, None, n_kv_heads=2, bias=False))
    assert [pair.columns for pair in pairing.pairs[:3]] == [(0, 8), (8, 12), (12, 16)]


def test_heads_with_axes_of_their_own_are_merged():
    assert orders((4, 2, 3), (4, 6)) == [(0, 1, 2), (0, 2, 1)]
    theirs = Weights(q__kernel=(6, 2, 3), k__kernel=(6, 2, 3), v__kernel=(6, 2, 3),
                     out__kernel=(2, 3, 6))
    pairing, _ = pairs_of(theirs, MultiHeadAttention(6, 2, None, bias=False))
    arrays = pairing.arrays(theirs.weights)
    assert (arrays["query.weight"] == theirs.weights["q.kernel"].reshape(6, 6)).all()
    assert (arrays["output.weight"] == theirs.weights["out.kernel"].reshape(6, 6)).all()


def test_names_pair_weights_lists_and_sublayers():
    layer = FeedForward(4, 6, "relu", None)
    theirs = Weights(x__w=(4, 6), x__b=(6,), y__w=(6, 4), y__b=(4,))
    _, lines = pairs_of(theirs, layer, {"x": "hidden", "y": "output"})
    assert lines == ["x.w = hidden.weight", "x.b = hidden.bias", "y.w = output.weight",
                     "y.b = output.bias"]
    theirs = Weights(all=(4, 12), out=(4, 4))
    pairing, _ = pairs_of(theirs, MultiHeadAttention(4, 2, None, bias=False),
                          {"all": ["value.weight", "query.weight", "key.weight"]})
    assert pairing.pairs[0].ours == "value.weight" and pairing.pairs[0].columns == (0, 4)


@pytest.mark.parametrize("names, words", [
    ({"w": "nothing"}, "'nothing' is none of ours: weight, bias"),
    ({"z": "weight"}, "'z' is none of theirs: w, b"),
    ({"w": "bias"}, r"their shapes \(4, 3\) and \(3,\) differ"),
    ({"w": ["weight", "bias"]}, "do not add up to")])
def test_names_that_do_not_fit_are_named(names, words):
    with pytest.raises(ValueError, match=words):
        pairs_of(Weights(w=(4, 3), b=(3,)), Linear(4, 3, None), names)


def test_a_weight_without_a_partner_is_refused_with_what_to_give():
    with pytest.raises(ValueError, match=r"theirs: b \(3,\); ours: none\. Build a layer"):
        pairs_of(Weights(w=(4, 3), b=(3,)), Linear(4, 3, None, bias=False))
    with pytest.raises(ValueError, match=r"theirs: none; ours: bias \(3,\)"):
        pairs_of(Weights(w=(4, 3)), Linear(4, 3, None))
    with pytest.raises(ValueError, match=r"Give names=\{'c': 'bias', \.\.\.\}"):
        pairs_of(Weights(w=(4, 3), c=(5,)), Linear(4, 3, None))


def test_the_weights_of_experts_may_be_stacked():
    config = DecoderConfig(
        vocab_size=11, context_length=8, n_layers=1, n_heads=2, d_model=4, d_hidden=6, n_experts=3,
        feedforward="swiglu", positions="rotary", norm="rms_norm", bias=False)
    ours = Decoder(config, None).blocks[0].feedforward
    theirs = Weights(True, router=(3, 4), gate_proj=(3, 6, 4), up_proj=(3, 6, 4),
                     down_proj=(3, 4, 6))
    pairing, _ = pairs_of(theirs, ours)
    arrays = pairing.arrays(theirs.weights)
    assert (arrays["experts.2.gate.weight"] == theirs.weights["gate_proj"][2].T).all()
    assert (arrays["experts.1.output.weight"] == theirs.weights["down_proj"][1].T).all()


def test_the_biases_of_an_lstm_are_added_and_its_gates_reordered():
    theirs = Weights(weight_ih_l0=(16, 3), weight_hh_l0=(16, 4), bias_ih_l0=(16,),
                     bias_hh_l0=(16,))
    pairing, lines = pairs_of(theirs, LSTM(3, 4, np.random.default_rng(0)))
    assert "weight_ih_l0, blocks from 0, 4, 12, 8 = input.weight transposed (gates i, f, o, g)" \
        in lines
    both = theirs.weights["bias_ih_l0"] + theirs.weights["bias_hh_l0"]
    assert np.allclose(pairing.arrays(theirs.weights)["input.bias"],
                       np.concatenate([both[:8], both[12:], both[8:12]]))


@pytest.mark.parametrize("theirs, right, wrong", [
    ("h.0.attn.c_proj.weight", "blocks.0.attention.output.weight", "blocks.0.attention.key.weight"),
    ("layers.1.mlp.up_proj.weight", "blocks.1.feedforward.hidden.weight",
     "blocks.0.feedforward.hidden.weight"),
    ("post_attention_layernorm.weight", "norm2.weight", "norm1.weight"),
    ("ln_1.gamma", "norm1.weight", "norm1.bias"), ("W_v", "value.weight", "query.weight")])
def test_names_of_other_libraries_are_read(theirs, right, wrong):
    assert score(theirs, right) > score(theirs, wrong)
